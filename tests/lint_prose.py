# SPDX-License-Identifier: Apache-2.0
"""The rules of tests/lint about English: words of the project, openings of comments, sentences.

A rule is here only if it has few exceptions. A line with "lint: allow RULE" is one. EXEMPT has
the others, with their reasons.
"""
import re

MAX_WORDS = 30

# (pattern, remedy). The glossary, docs/glossary.md, defines the project's terms.
VOCABULARY = [
    (r'\banew\b', 'again'),
    (r'\b(?:newcomers?|leavers?)\b', 'new client, candidate, evicted peer'),
    (r'\brosters?\b', 'connection table'),
    (r'\bwhoever\b', 'name the client, the user or the server'),
    (r'\bvouch(?:es|ed|ing)?\b', 'sign, trust'),
    (r'\bin hand\b', 'prefetched'),
    (r'\b(?:life before|earlier life)\b', 'earlier run'),
    (r'\b(?:of|in) 2010\b(?!-)', 'original, legacy'),
    (r'\b(?:owes?|owed|repays?|repaid)\b', 'pending'),
    (r'\bhurr(?:y|ies|ied)\b', 'retry now'),
    (r'\bbeside\b', 'next to, in addition to, compared with'),
    (r'\bmend(?:s|ed|ing)?\b', 'fix'),
    (r'\b(?:stands?|lies?|lay) (?:in|there|below|above|behind) (?!for\b)', 'is in, is stored in'),
    (r'\bhand(?:s|ed|ing)? (?:it |them )?back\b', 'release, return'),
    (r'\bhabits?\b', 'settings, capabilities'),
    (r'\bseats?\b', 'batch slot'),
    (r'\b(?:all the same|as ever)\b', 'leave it out'),
    (r"\b(?:nobody's|and its kin|and their kin)\b", 'say which'),
    (r'\bagain and again\b', 'repeatedly'),
    (r'\bwide IDs?\b', '128-bit IDs'),
    (r'\blook-ups?\b', 'lookup, DNS lookup'),
]
# A comment names its subject: these words begin a clause that depends on another one.
OPENING = re.compile(r"(?:of|that|which|whose|whom|who|such|likewise|ditto|beside|behind)\b"
                     r"(?! (?:this|these|same)\b)|(?:as|and|or) [a-z_]+\(\)", re.IGNORECASE)
COMMENT = re.compile(r'/\*(.*?)\*/|(?<![:"\'])//(?!\S*["\'])([^\n]*)', re.DOTALL)

# (path, rule): the reason. A path that ends with / is a directory.
EXEMPT = {
    ('tests/lint_prose.py', 'vocabulary'): 'the list itself',
    ('tests/lint_selftest.py', 'vocabulary'): 'breaks the rules',
    ('CHANGELOG.md', 'sentence'): 'keeps entries of earlier versions as they were',
    ('LICENSE', 'vocabulary'): "is not the project's text",
    ('docs/performance/results.md', 'sentence'): 'lists of figures, written by bench/report.py',
    ('tests/unit/bench/check-report.py', 'vocabulary'): 'a name, with many uses',
}
PROSE = ('.c', '.h', '.md', '.py', '.js', '.mjs', '.go', '.sh', '.thrift', '.yml', '.1', '.8',
         '.html', '.conf', '.pml', '.build', '.service')


def is_exempt(source, rule):
    return any(rule == its and (source.path == path or
                                path.endswith('/') and source.path.startswith(path))
               for path, its in EXEMPT)


def line_of(text, position):
    return text.count('\n', 0, position) + 1


def check_vocabulary(source):
    """One word for one thing, so that readers recognise it."""
    if is_exempt(source, 'vocabulary') or not (source.path.endswith(PROSE) or source.language):
        return
    for pattern, remedy in VOCABULARY:
        for match in re.finditer(pattern.replace(' ', r'\s+'), source.text, re.IGNORECASE):
            word = re.sub(r'\s+', ' ', match[0]).strip()
            yield line_of(source.text, match.start()), f'"{word}": {remedy}'


def comments(source):
    """Yields (line, text without stars) of the comments in C."""
    for match in COMMENT.finditer(strings_blanked(source.text)):
        text = match[1] if match[1] is not None else match[2]
        yield line_of(source.text, match.start()), re.sub(r'(?m)^\s*\* ?', '', text.lstrip('*'))


def strings_blanked(text):
    """Returns C with the contents of its strings blanked, so that they begin no comment."""
    token = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
    return token.sub(lambda match: re.sub(r'[^\n]', ' ', match[0])
                     if match[0].startswith('"') else match[0], text)


def check_opening(source):
    """A comment that begins with "of the last ID" makes the reader look for the noun."""
    if source.language != 'c' or is_exempt(source, 'opening'):
        return
    for line, text in comments(source):
        match = OPENING.match(text.strip())
        if match:
            yield line, f'a comment that begins with "{match[0]}": name its subject'


def blocks(source):
    """Yields (line, text) of paragraphs, list items, table cells and parts of comments."""
    if source.path.endswith('.h') and not source.is_in('tests/', 'bench/', 'gen-c_glib/'):
        for line, text in comments(source):
            # an indented paragraph is a table or code
            for part in re.split(r'\n\s*\n|\n(?=@|Returns:|[-*0-9]|S\d)', text):
                if not part.startswith('  '):
                    yield line, part
    elif source.path.endswith('.md') and not source.is_in('tests/fuzz/'):
        yield from markdown_blocks(source)
    elif re.search(r'docs/man/[^/]*\.[1-8]$', source.path):
        yield from manual_blocks(source)


def markdown_blocks(source):
    block, start, is_fenced = [], 1, False
    for number, line in enumerate(source.lines + [''], 1):
        is_fence = line.lstrip().startswith('```')
        is_fenced ^= is_fence
        begins = re.match(r'\s*(?:[-*#>|<]|\d+\.|!\[)', line)
        if not line.strip() or is_fenced or is_fence or begins:
            yield start, ' '.join(block)
            block, start = [], number
        if line.lstrip().startswith('|'):
            yield from ((number, cell) for cell in line.split('|'))
        elif line.strip() and not is_fenced and not is_fence and not line.startswith('    '):
            block.append(line.strip())


def manual_blocks(source):
    block, start, is_verbatim = [], 1, False
    for number, line in enumerate(source.lines + ['.'], 1):
        is_inline = re.match(r'\.(?:B|I|[BIR]{2}) |[^.\']', line)
        is_verbatim = not line.startswith(('.EE', '.fi', '.TE')) and \
            (is_verbatim or line.startswith(('.EX', '.nf', '.TS')))
        if not is_inline or line.startswith(r'\(bu'):
            yield start, ' '.join(block)
            block, start = [], number
        if is_inline and not is_verbatim:
            block.append(re.sub(r'\\f.|\\[-&]', '', re.sub(r'^\.[A-Z]+ ', '', line)))


def check_sentence(source):
    """Over 30 words, readers forget the beginning. Code counts as one word. In lists of values,
    after @ and Returns, a semicolon ends a sentence."""
    if is_exempt(source, 'sentence'):
        return
    for line, text in blocks(source):
        text = re.sub(r'`[^`]*`|"[^"]*"', 'code', text.strip())
        text = re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', text)
        text = re.sub(r'\((?:transfer|nullable|(?:in)?out|in|optional|element-type|array)\b[^)]*\)',
                      '', text)
        end = r'(?<=[.!?;])' if text.startswith(('@', 'Returns')) else r'(?<=[.!?])'
        for sentence in re.split(end + r'[*)]*\s+', text):
            words = len(re.findall(r"[^\W_][\w'’.,/%@:()-]*", sentence))
            if words > MAX_WORDS:
                yield line, f'a sentence of {words} words, {MAX_WORDS} at most: ' \
                            f'{" ".join(sentence.split())[:60]} ...'


RULES = {
    'opening': check_opening,
    'sentence': check_sentence,
    'vocabulary': check_vocabulary,
}
