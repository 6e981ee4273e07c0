"""Types of command-line arguments."""

import argparse
import math
import re


def ratio(text):
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"invalid ratio above zero value: {text!r}")
    return value


def regex(text):
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"invalid regular expression value: {text!r}") from error


def positive(text):
    return whole_number(text, 1)


def above_two(text):
    return whole_number(text, 3)  # of two, a spread is not known


def whole_number(text, least):
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above {least - 1}")
    return int(text)
