# SPDX-License-Identifier: Apache-2.0
import json
from datetime import datetime, timedelta, timezone

from support import VECTORS, Case

from snowflake_client import (TWITTER, Layout, decode, from_base62, from_crockford, id_range,
                              to_base62, to_crockford)

LAYOUTS = json.loads((VECTORS / "layouts.json").read_text())
TEXTS = json.loads((VECTORS / "text.json").read_text())


def layout_of(vector):
    bits = vector["bits"]
    return Layout(vector["epoch_ms"], bits["time"], bits["datacenter"], bits["worker"],
                  bits["sequence"], vector["time_unit_ms"])


def utc(ms):
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=ms)


class Vectors(Case):
    def of_all(self):
        for vector in LAYOUTS["twitter"]["ids"]:
            yield layout_of(LAYOUTS["twitter"]), vector
        for vector in LAYOUTS["other_layouts"]:
            yield layout_of(vector), vector

    def test_decode(self):
        for layout, vector in self.of_all():
            with self.subTest(id=vector["id"]):
                self.assertEqual(
                    decode(int(vector["id"]), layout),
                    (utc(vector["timestamp_ms"]), vector["datacenter_id"], vector["worker_id"],
                     vector["sequence"]))

    def test_the_range_of_a_tick_has_its_id(self):
        for layout, vector in self.of_all():
            with self.subTest(id=vector["id"]):
                low, high = layout.range(*[utc(vector["timestamp_ms"])] * 2)
                self.assertLessEqual(low, int(vector["id"]))
                self.assertLessEqual(int(vector["id"]), high)
                self.assertEqual(layout.decode(low)[1:], (0, 0, 0))
                self.assertEqual(layout.decode(high).time, layout.decode(low).time)
                if high < 2**63 - 1:
                    self.assertGreater(layout.decode(high + 1).time, utc(vector["timestamp_ms"]))

    def test_twitter_is_the_default(self):
        self.assertEqual(layout_of(LAYOUTS["twitter"]), TWITTER)

    def test_texts(self):
        for vector in TEXTS["ids"]:
            number = int(vector["id"])
            with self.subTest(id=number):
                self.assertEqual(to_base62(number), vector["base62"])
                self.assertEqual(to_crockford(number), vector["base32_crockford"])
                self.assertEqual(from_base62(vector["base62"]), number)
                self.assertEqual(from_crockford(vector["base32_crockford"].lower()), number)

    def test_what_is_no_text_of_an_id(self):
        for read, name in ((from_base62, "base62"), (from_crockford, "base32_crockford")):
            for text in TEXTS["reject"][name]:
                with self.subTest(text=text), self.assertRaises(ValueError):
                    read(text)


class Limits(Case):
    def test_a_number_that_is_no_id(self):
        js_safe = Layout(1767225600000, 41, 0, 5, 7)
        for layout, number in ((TWITTER, -1), (TWITTER, 2**63), (js_safe, 2**53)):
            with self.subTest(number=number), self.assertRaises(ValueError) as caught:
                decode(number, layout)
            self.assertIn(str(number), str(caught.exception))
        self.assertEqual(decode(2**53 - 1, js_safe)[1:], (0, 31, 127))

    def test_text_of_what_is_no_id(self):
        for write in (to_base62, to_crockford):
            for number in (-1, 2**63):
                with self.assertRaises(ValueError):
                    write(number)

    def test_letters_that_look_like_figures(self):
        self.assertEqual(from_crockford("iIlLoO"), from_crockford("111100"))

    def test_texts_sort_as_ids_do(self):
        numbers = [0, 9, 10, 35, 36, 61, 62, 1 << 40, 2**63 - 1]
        for write in (to_base62, to_crockford):
            self.assertEqual(sorted(map(write, numbers)), list(map(write, numbers)))

    def test_a_span(self):
        # what `snowflakectl range` prints, as in README.md
        self.assertEqual(id_range(datetime(2026, 11, 21, 12, tzinfo=timezone.utc),
                                  datetime(2026, 11, 21, 12, 59, 59, 999000, timezone.utc)),
                         (2124110575825846272, 2124125675320246271))

    def test_a_span_of_another_time_zone(self):
        east = timezone(timedelta(hours=2))
        noon = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
        self.assertEqual(id_range(noon, noon), id_range(noon.astimezone(east), noon))

    def test_a_span_that_the_layout_has_a_part_of(self):
        early, late = datetime(1999, 1, 1, tzinfo=timezone.utc), datetime(2099, 1, 1,
                                                                          tzinfo=timezone.utc)
        self.assertEqual(id_range(early, late), (0, 2**63 - 1))

    def test_a_span_that_is_none(self):
        time = datetime(2020, 1, 1, tzinfo=timezone.utc)
        second = timedelta(seconds=1)
        for start, end, word in ((time, time - second, "before it begins"),
                                 (utc(0), utc(1), "outside the layout's range"),
                                 (utc(4e12), utc(4e12), "outside the layout's range"),
                                 (time.replace(tzinfo=None), time, "time zone")):
            with self.assertRaises(ValueError) as caught:
                id_range(start, end)
            self.assertIn(word, str(caught.exception))
