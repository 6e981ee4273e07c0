! Words and numbers of a line of text, read strictly: Fortran's own list-directed input would take a
! slash, an asterisk, a quote or a comma for something else than an error.
module md_words
  use, intrinsic :: iso_c_binding, only: c_int64_t, dp => c_double
  use, intrinsic :: ieee_arithmetic, only: ieee_is_finite
  implicit none (type, external)
  private
  public :: words_t, split, real_of, whole_of, text_of

  integer, parameter, public :: most_columns = 2048 !< words of a line

  !> A line's words: numbers of their first and last characters.
  type :: words_t
    integer :: count = 0, first(most_columns) = 0, last(most_columns) = 0
  end type words_t

contains

  !> Words of line(from:to), between blanks and tabs; at most most_columns.
  pure function split(line, from, to) result(words)
    character(*), intent(in) :: line
    integer, intent(in) :: from, to
    type(words_t) :: words
    integer :: i
    logical :: inside
    inside = .false.
    do i = from, to
      if (line(i:i) == " " .or. line(i:i) == achar(9)) then
        inside = .false.
      else
        if (.not. inside) then
          if (words%count == most_columns) return
          words%count = words%count + 1
          words%first(words%count) = i
        end if
        inside = .true.
        words%last(words%count) = i
      end if
    end do
  end function split

  !> Whether a word is [sign] digits [. digits] [e|E|d|D [sign] digits], or only its first two.
  pure logical function is_number(word, whole)
    character(*), intent(in) :: word
    logical, intent(in) :: whole
    integer :: at, digits
    at = 1
    if (scan(word(:min(1, len(word))), "+-") == 1) at = 2
    digits = digits_at(word, at)
    at = at + digits
    if (.not. whole) then
      if (at <= len(word)) then
        if (word(at:at) == ".") then
          digits = digits + digits_at(word, at + 1)
          at = at + 1 + digits_at(word, at + 1)
        end if
      end if
      if (digits > 0 .and. at <= len(word)) then
        if (scan(word(at:at), "eEdD") == 1) then
          at = at + 1
          if (at <= len(word)) at = at + scan(word(at:at), "+-")
          digits = digits_at(word, at)
          at = at + digits
        end if
      end if
    end if
    is_number = digits > 0 .and. at > len(word)
  end function is_number

  !> Number of digits of a word from a place on.
  pure integer function digits_at(word, at)
    character(*), intent(in) :: word
    integer, intent(in) :: at
    digits_at = 0
    if (at <= len(word)) digits_at = verify(word(at:)//"x", "0123456789") - 1
  end function digits_at

  !> Reads a real number; false, with value 0, if the word is not a finite number.
  logical function real_of(word, value)
    character(*), intent(in) :: word
    real(dp), intent(out) :: value
    integer :: status
    value = 0
    real_of = is_number(word, whole=.false.)
    if (.not. real_of) return
    read (word, *, iostat=status) value
    real_of = status == 0 .and. ieee_is_finite(value)
  end function real_of

  !> Reads a whole number; false if the word is not one, or is too large.
  logical function whole_of(word, value)
    character(*), intent(in) :: word
    integer(c_int64_t), intent(out) :: value
    integer :: status
    value = 0
    whole_of = is_number(word, whole=.true.)
    if (.not. whole_of) return
    read (word, *, iostat=status) value
    whole_of = status == 0
  end function whole_of

  !> A whole number as text, without blanks.
  pure function text_of(number) result(text)
    integer(c_int64_t), intent(in) :: number
    character(:), allocatable :: text
    character(24) :: digits
    write (digits, "(i0)") number
    text = trim(digits)
  end function text_of

end module md_words
