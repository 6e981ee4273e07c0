"""Which combinations have their turn, and what is said of those that cannot be had."""

import configparser
import itertools
import unittest
from pathlib import Path

import combinations


class Table(unittest.TestCase):
    def test_each_has_a_turn_in_any_seven_days(self):
        for count, first in itertools.product(range(1, 17), range(20)):
            names = [str(i) for i in range(count)]
            week = [combinations.due(names, first + day) for day in range(7)]
            self.assertEqual(set(itertools.chain(*week)), set(names))
            self.assertLessEqual(max(map(len, week)), (count + 6) // 7)

    def test_what_cannot_be_had_is_missing(self):
        table = configparser.ConfigParser()
        table.read_dict({"a": {"needs": "sh no-such-program"}})
        with self.assertRaisesRegex(combinations.Missing, ": no-such-program$"):
            combinations.run("a", table["a"], Path("/nowhere"), "1")

    def test_unknown_names(self):
        self.assertEqual(combinations.main("nowhere", "1", "no-such-name"), 2)


if __name__ == "__main__":
    unittest.main()
