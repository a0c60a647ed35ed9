# SPDX-License-Identifier: Apache-2.0
"""docs/reference/conformance.md: which client passes which scenario, from the results of a run."""
from bindings import ROOT
from languages import version_of
from scenarios import CAPABILITIES
from suite import NO_NAMES

DOCUMENT = ROOT / "docs" / "reference" / "conformance.md"
YES, NO = "yes", "-"
VERSIONS = "## Versions"

TEXT = """# What clients live through

This page is for those who choose a client package: it says which troubles each package survives.
All packages ran the same scenarios, against real servers and a proxy that breaks connections, holds
replies back and falsifies them. `tests/clients/run --write` wrote this page from the results;
[tests/clients](../../tests/clients/README.md) explains the scenarios.

In every scenario:

- no ID came twice, and each ID was of one of the servers;
- the IDs of a server increased in a thread;
- no call hung, and no call failed that another server could have served;
- a call that had to fail did so with the right kind of error, which named the servers that were
  tried, and why each had failed;
- a call that timed out did not end before its deadline.

Each scenario ran with prefetch and without, where a package supports both. How long after its
deadline a call ends, `bench/run --experiments clients` measures.

{table}

"{yes}": the package passes; "{no}": its design excludes the scenario, and the note says why. A note
after a "{yes}" says which check was left out. A note at a language applies to all its scenarios.

{notes}

{versions}

{packages}

Debian's versions are of the machine that wrote this.
"""


class _Notes:
    """A number for each text."""

    def __init__(self):
        self.texts = {}

    def number(self, text):
        return self.texts.setdefault(text, len(self.texts) + 1)

    def show(self):
        return "\n".join(f"{number}. {text}" for text, number in self.texts.items())


def _said(outcome):
    """The texts of its notes."""
    return [_note(prefetch, why) for prefetch, why in outcome.unsupported] + [
        f"not asked of it: \"{CAPABILITIES[name]}\"; {why}"
        for name, why in sorted(outcome.excused.items())]


def _note(prefetch, why):
    if prefetch is None:
        return why
    return f"{'with' if prefetch else 'without'} prefetch: {why}"


def _shared(outcomes):
    """What is said wherever a scenario was done in part: it stands at the language's name."""
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
    """What the page says otherwise than was seen, but for versions; or "". A run that
    failed, or could not try all on this machine, tells nothing."""
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
    return "\n".join(["it says otherwise; tests/clients/run --write writes it anew:", *wrong,
                      *missing])
