"""How the documentation is built: Markdown pages, and a reference out of the docstrings.

The package has to be installed, since its version and its docstrings are read from it.
Nothing is fetched from anywhere, so no other project's pages are linked by name.
"""

from importlib.metadata import version as version_of

project = "anarchon"
author = "the anarchon authors"
project_copyright = author
release = version = version_of("anarchon")

extensions = [
    "myst_parser",  # the pages are Markdown
    "sphinx.ext.autodoc",  # the reference comes from the docstrings,
    "sphinx.ext.napoleon",  # which are in Google style
]

# Headings get anchors, so that pages can link to each other's sections.
myst_heading_anchors = 3

# `word` in a docstring is code, as it is in Markdown.
default_role = "literal"
autodoc_member_order = "bysource"
# Names as they are imported, `Run` rather than `anarchon._values.Run`.
add_module_names = False
autodoc_typehints_format = "short"

# Annotations name types as the source does: `datetime` and its like, which have their pages
# elsewhere, and aliases such as `Duration`, which have none. Every link that a page or a
# docstring writes has to have its target.
nitpick_ignore_regex = [
    ("py:class", r"(?!anarchon\.).*"),
    ("py:class", r"anarchon\.(\w+\.)*_\w+.*"),
]

html_theme = "furo"
html_title = f"anarchon {release}"
html_show_sphinx = False
html_copy_source = False
