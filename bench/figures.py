# SPDX-License-Identifier: Apache-2.0
"""The figures in the records of a run, by round, and their medians."""
import collections
import statistics


def _point_of(record):
    return record["experiment"], record["server"], record["point"]


class Figures:
    """The records of a run. A record with an error has no figures."""

    def __init__(self, records):
        self.records = [record for record in records if "error" not in record]
        self.failures = [record for record in records if "error" in record]
        self._by_point = collections.defaultdict(list)
        for record in self.records:
            self._by_point[_point_of(record)].append(record)

    def by_round(self, experiment, server, point, *key):
        """Returns {round: figure}. key: the path to the figure in a record."""
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
        """Returns the median, or None if there are no figures."""
        values = self.values(experiment, server, point, *key)
        return statistics.median(values) if values else None

    def ratios(self, experiment, subject, other, *key):
        """Returns the ratios of two (server, point)s, within each round that has both."""
        ours = self.by_round(experiment, *subject, *key)
        theirs = self.by_round(experiment, *other, *key)
        return [ours[number] / theirs[number] for number in ours if theirs.get(number)]

    def ratio_of(self, experiment, subject, key, other_key):
        """Returns the ratios of two figures of one (server, point), within each round."""
        ours = self.by_round(experiment, *subject, key)
        theirs = self.by_round(experiment, *subject, other_key)
        return [ours[number] / theirs[number] for number in ours if theirs.get(number)]

    def generator(self, key):
        """Returns a list from bench/generator/run: its cases, or its goals."""
        return [one for record in self.records for one in record.get(key, [])]
