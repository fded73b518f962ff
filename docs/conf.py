"""Settings of the documentation site: `make docs` writes it to `docs/_build`."""

import jaxgym

project = "jaxgym"
author = copyright = "The jaxgym authors"
release = version = jaxgym.__version__

extensions = [
    "myst_nb",  # Markdown pages and notebooks
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]
# Napoleon links the name of each attribute in a docstring, and several classes have the same names.
suppress_warnings = ["ref.python"]
nb_execution_mode = "off"  # notebooks are stored with their outputs
myst_enable_extensions = ["html_image"]
myst_heading_anchors = 4  # the anchors that GitHub makes

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_preserve_defaults = True
default_role = "literal"  # docstrings write code as in Markdown
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "pydata_sphinx_theme"
html_title = "jaxgym"
html_theme_options = {
    "show_prev_next": True,
    "show_toc_level": 2,
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_context = {"default_mode": "auto"}  # the color theme of the reader's system
html_favicon = "_static/favicon.png"
html_static_path = ["_static"]
html_css_files = ["site.css"]
# A page without a section has no navigation of its section.
html_sidebars = {
    page: [] for page in ("benchmarks", "changelog", "glossary", "installation", "quickstart", "releasing", "roadmap")
} | {"results/*": []}
html_copy_source = html_show_sourcelink = False
