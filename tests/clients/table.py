# SPDX-License-Identifier: Apache-2.0
"""docs/reference/conformance.md: which client passes which scenario, from the results of a run."""
from bindings import ROOT
from languages import version_of
from scenarios import CAPABILITIES
from suite import NO_NAMES

DOCUMENT = ROOT / "docs" / "reference" / "conformance.md"
YES, NO = "yes", "-"
VERSIONS = "## Versions"

TEXT = """# Client conformance

This page is for developers who are choosing a client package. It shows which failures each package
survives.

All packages ran the same scenarios against real servers, and against a proxy that breaks
connections and delays or falsifies replies. `tests/clients/run --write` generates this page from
the results. [tests/clients](../../tests/clients/README.md) explains the scenarios.

In every scenario:

- No ID is returned twice, and each ID comes from one of the servers.
- The IDs that a thread receives from one server increase.
- No call hangs, and no call fails if another server could have answered it.
- A call that has to fail reports the right kind of error. The error lists each server that was
  tried, and what went wrong there.
- A call with a timeout does not give up before its deadline.

Each scenario runs with and without prefetch if a package supports both.
`bench/run --experiments clients` measures how long after its deadline a call ends.

{table}

"{yes}": the package passes. "{no}": the scenario does not apply to the package, for the reason in
the note. A note after a "{yes}" names a check that was omitted. A note next to a language applies
to all its scenarios.

{notes}

{versions}

{packages}

These are the versions on the Debian machine that generated this page.
"""


class _Notes:
    """Footnotes: a number for each text."""

    def __init__(self):
        self.texts = {}

    def number(self, text):
        return self.texts.setdefault(text, len(self.texts) + 1)

    def show(self):
        return "\n".join(f"{number}. {text}" for text, number in self.texts.items())


def _said(outcome):
    """Returns the texts of an outcome's notes."""
    return [_note(prefetch, why) for prefetch, why in outcome.unsupported] + [
        f"omitted: \"{CAPABILITIES[name]}\"; {why}"
        for name, why in sorted(outcome.excused.items())]


def _note(prefetch, why):
    if prefetch is None:
        return why
    return f"{'with' if prefetch else 'without'} prefetch: {why}"


def _shared(outcomes):
    """Returns the notes that all partial outcomes share. They are put at the language's name."""
    said = [set(_said(outcome)) for outcome in outcomes
            if outcome.passed and len(outcome.unsupported) > 0]
    return set.intersection(*said) if said else set()


def _numbered(word, texts, notes):
    numbers = sorted({notes.number(text) for text in texts})
    return " ".join([word, *(f"[{number}]" for number in numbers)])


def _cell(outcome, shared, notes):
    if outcome.passed:
        return _numbered(YES, [text for text in _said(outcome) if text not in shared], notes)
    return _numbered(NO, _said(outcome), notes)


def table(*rows):
    head, *rest = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rest))


def _by_pair(outcomes):
    return {(outcome.scenario, outcome.language): outcome for outcome in outcomes}


def document(scenarios, languages, outcomes):
    found = _by_pair(outcomes)
    notes = _Notes()
    shared = {language.name: _shared([outcome for outcome in outcomes
                                 if outcome.language == language.name]) for language in languages}
    rows = [["Scenario", "", *(_numbered(language.name, shared[language.name], notes)
                               for language in languages)]]
    for scenario in scenarios:
        rows.append([scenario.name, scenario.says,
                     *(_cell(found[scenario.name, language.name], shared[language.name], notes)
                       for language in languages)])
    packages = [["Language", "Package", "On"]]
    for language in languages:
        told = next((outcome for outcome in outcomes
                     if outcome.language == language.name and outcome.package), None)
        library = [told.library] if told and told.library else []
        packages.append([language.name, told.package if told else "", ", ".join(
            library + [f"{name} {version_of(name)}" for name in language.packages])])
    return TEXT.format(table=table(*rows), yes=YES, no=NO, notes=notes.show(),
                       versions=VERSIONS, packages=table(*packages))


def write(scenarios, languages, outcomes):
    DOCUMENT.write_text(document(scenarios, languages, outcomes))


def differs(scenarios, languages, outcomes):
    """Returns how the page differs from the results, except for versions; or "". Returns "" for a
    run that has failed, or was incomplete on this machine."""
    if any(outcome.problem or any(why == NO_NAMES for _, why in outcome.unsupported)
           for outcome in outcomes):
        return ""
    seen, told = (text.partition(VERSIONS)[0].splitlines() for text in (
        document(scenarios, languages, outcomes),
        DOCUMENT.read_text() if DOCUMENT.exists() else ""))
    missing = [f"+ {line}" for line in seen if line not in told]
    wrong = [f"- {line}" for line in told if line not in seen]
    if not missing and not wrong:
        return ""
    return "\n".join(["it says otherwise; tests/clients/run --write writes it again:", *wrong,
                      *missing])
