! Files of a Fortran kernel's own that appear whole: file.c through bind(C).
module bx_file
  use, intrinsic :: iso_c_binding, only: c_char, c_loc, c_new_line, c_null_char, c_ptr, c_size_t
  use bx_harness, only: bx_string_at
  implicit none (type, external)
  private
  public :: bx_file_close, bx_file_open, bx_file_put

  interface
    type(c_ptr) function c_file_open(path) bind(C, name="bx_file_open")
      import :: c_char, c_ptr
      implicit none (type, external)
      character(kind=c_char), intent(in) :: path(*)
    end function c_file_open

    subroutine c_file_put(file, text, length) bind(C, name="bx_file_put_text")
      import :: c_char, c_ptr, c_size_t
      implicit none (type, external)
      type(c_ptr), value :: file
      character(kind=c_char), intent(in) :: text(*)
      integer(c_size_t), value :: length
    end subroutine c_file_put

    subroutine c_file_close(file, path, why, why_size) bind(C, name="bx_file_close_text")
      import :: c_char, c_ptr, c_size_t
      implicit none (type, external)
      type(c_ptr), value :: file
      character(kind=c_char), intent(in) :: path(*)
      integer(c_size_t), value :: why_size
      character(kind=c_char), intent(out) :: why(*)
    end subroutine c_file_close
  end interface

contains

  !> A file that takes the place of `path` when it is closed; null if it cannot be created.  Local.
  type(c_ptr) function bx_file_open(path) result(file)
    character(*), intent(in) :: path
    file = c_file_open(path//c_null_char)
  end function bx_file_open

  !> Appends a line; failures show when the file is closed.  Local.
  subroutine bx_file_put(file, line)
    type(c_ptr), intent(in) :: file
    character(*), intent(in) :: line
    call c_file_put(file, line//c_new_line, len(line, c_size_t) + 1)
  end subroutine bx_file_put

  !> Puts the file in its place; `reason` is empty, or why it failed, and `path` is then as it was.
  !> `file` is the value of bx_file_open, also where it is null.  Local.
  subroutine bx_file_close(file, path, reason)
    type(c_ptr), intent(in) :: file
    character(*), intent(in) :: path
    character(:), allocatable, intent(out) :: reason
    character(kind=c_char), target :: text(256)
    call c_file_close(file, path//c_null_char, text, size(text, kind=c_size_t))
    reason = bx_string_at(c_loc(text))
  end subroutine bx_file_close

end module bx_file
