"""The documentation builds without a warning, and its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from packaging.requirements import Requirement

import anarchon.testing
from tests.docs.pages import DOCS, PAGES, ROOT, environment, text_of

# All of it in one process, one after another, so that there is one build.
pytestmark = pytest.mark.serial

BUILD = "-W --keep-going -n -q -b html"
LINK = re.compile(r"\]\(([^)\s]+)\)")


class Page(HTMLParser):
    """Collects where a page leads, and where one can land in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors = {""}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if given.get("id"):
            self.anchors.add(given["id"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the pages into a new folder, as CONTRIBUTING says."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", *BUILD.split()]
    done = subprocess.run(
        [*command, "-d", str(out / "doctrees"), str(DOCS), str(out / "html")],
        cwd=out,  # not the checkout, which would come before an installed wheel
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out / "html"


def test_it_builds_without_a_warning(site):
    built = {path.stem for path in site.glob("*.html")}
    assert {Path(page).stem for page in PAGES} <= built


def test_contributing_has_this_command():
    command = f"python -m sphinx {BUILD.replace('-q ', '')} docs site"
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert command in text
    assert "The documentation, with `python -m pip install -e '.[docs]'`" in text


def test_the_extra_brings_all_that_the_reference_imports():
    """Whatever else is installed here, nothing of it is needed for the docstrings."""
    program = (
        "import sys; before = set(sys.modules); import anarchon, anarchon.testing as t;"
        "[getattr(t, name) for name in t.__all__];"
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    from_packages = packages_distributions()
    used = {name for module in done.stdout.split() for name in from_packages.get(module, [])}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*extras["dependencies"], *extras["optional-dependencies"]["docs"]]
    assert "pytest" in used
    assert {canonical(name) for name in used} - {"anarchon"} <= brought(wanted)


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def brought(wanted: list[str]) -> set[str]:
    """Return the names of distributions that requirements bring, with what these require."""
    found, waiting = set(), [Requirement(text) for text in wanted]
    while waiting:
        name = canonical(waiting.pop().name)
        if name not in found:
            found.add(name)
            parts = map(Requirement, requires(name) or [])
            waiting += [part for part in parts if not part.marker or part.marker.evaluate()]
    return found


def test_every_link_and_every_anchor_inside_leads_somewhere(site):
    pages = {path.name: Page(path.read_text(encoding="utf-8")) for path in site.glob("*.html")}
    dead, checked = [], 0
    for name, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            checked += 1
            target = pages.get(parts.path or name)
            if target is None or unquote(parts.fragment) not in target.anchors:
                dead.append((name, link))
    assert checked > 100
    assert dead == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_from_the_top_folder_lead_to_files(name):
    links = LINK.findall((ROOT / name).read_text(encoding="utf-8"))
    inside = [link for link in links if "://" not in link]
    assert [link for link in inside if not (ROOT / link.partition("#")[0]).exists()] == []


def test_no_page_leads_outside():
    """What lies outside can't be checked here, so it isn't linked to."""
    assert [
        (page, link) for page in PAGES for link in LINK.findall(text_of(page)) if ":" in link
    ] == []


def test_every_page_is_reached_from_the_first():
    found = set(re.findall(r"^(\S+)$", text_of("index.md").rpartition(":hidden:")[2], re.MULTILINE))
    assert {Path(page).stem for page in PAGES} - {"index"} <= found


def test_the_reference_has_every_public_name(site):
    anchors = Page((site / "reference.html").read_text(encoding="utf-8")).anchors
    ends = {anchor.rpartition(".")[2] for anchor in anchors}
    aliases = {"Duration"}  # a union of types, described wherever it is taken
    assert set(anarchon.__all__) - aliases <= ends
    assert {f"anarchon.testing.{name}" for name in anarchon.testing.__all__} <= anchors


def test_a_title_says_which_version_it_is(site):
    assert f"<title>anarchon {anarchon.__version__}</title>" in (site / "index.html").read_text(
        encoding="utf-8"
    )


def test_no_property_reads_as_a_type(site):
    """In Google style, what a property's docstring has before a colon is its type."""
    text = (site / "reference.html").read_text(encoding="utf-8")
    entries = re.split(r'<dl class="py ', text)
    properties = [entry for entry in entries if entry.startswith("property")]
    assert len(properties) > 5
    assert [entry for entry in properties if ">Type<" in entry] == []
