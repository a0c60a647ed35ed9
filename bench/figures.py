# SPDX-License-Identifier: Apache-2.0
"""What the records of a run come to: figures by round, and their medians."""
import collections
import statistics


def _point_of(record):
    return record["experiment"], record["server"], record["point"]


class Figures:
    """The records of a run. A record that has an error has no figures."""

    def __init__(self, records):
        self.records = [record for record in records if "error" not in record]
        self.failures = [record for record in records if "error" in record]
        self._by_point = collections.defaultdict(list)
        for record in self.records:
            self._by_point[_point_of(record)].append(record)

    def by_round(self, experiment, server, point, *key):
        """Round -> the figure; key is the way to it in a record."""
        found = {}
        for record in self._by_point.get((experiment, server, point), ()):
            value = record
            for name in key:
                value = value.get(name) if value is not None else None
            if value is not None:
                found[record["round"]] = value
        return found

    def values(self, experiment, server, point, *key):
        return list(self.by_round(experiment, server, point, *key).values())

    def median(self, experiment, server, point, *key):
        """Or None if there is nothing."""
        values = self.values(experiment, server, point, *key)
        return statistics.median(values) if values else None

    def ratios(self, experiment, subject, other, *key):
        """One by the other, each a (server, point), within each round that has both."""
        ours = self.by_round(experiment, *subject, *key)
        theirs = self.by_round(experiment, *other, *key)
        return [ours[number] / theirs[number] for number in ours if theirs.get(number)]

    def ratio_of(self, experiment, subject, key, other_key):
        """Of two figures of one (server, point), within each round."""
        ours = self.by_round(experiment, *subject, key)
        theirs = self.by_round(experiment, *subject, other_key)
        return [ours[number] / theirs[number] for number in ours if theirs.get(number)]

    def generator(self, key):
        """A list that bench/generator/run told: its cases, or its goals."""
        return [one for record in self.records for one in record.get(key, [])]
