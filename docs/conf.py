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
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_copy_source = html_show_sourcelink = False
