"""Settings of the documentation site; ``make docs`` builds it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for the extensions of this folder

from remuda.system.version import __version__

project = "remuda"
author = "The remuda authors"
copyright = "the remuda authors"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "extensions.pages",
]

# Pages
source_suffix = {
    ".md": "markdown",
    ".ipynb": "markdown",
}  # extensions.notebooks converts the latter
root_doc = "index"
exclude_patterns = ["**/.ipynb_checkpoints"]
myst_heading_anchors = 4  # the same anchors as on GitHub
smartquotes = False  # "--set" and quoted values are code
nitpicky = True
# Other projects' objects have no address here, because the build needs no network.
nitpick_ignore_regex = [("py:.*", ".*")]

# Reference of the Python API
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88

# Look
html_theme = "furo"
html_title = f"remuda {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "source_repository": "https://github.com/remuda/remuda/",
    "source_branch": "main",
    "source_directory": "docs/",
}
pygments_style = "default"
pygments_dark_style = "monokai"
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
copybutton_selector = "div:not(.no-copy) > div.highlight > pre"
