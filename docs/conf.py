"""Sphinx configuration."""

import fisherleak

project = "fisherleak"
copyright = "2026, the fisherleak developers"  # noqa: A001
version = release = fisherleak.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax", "numpydoc"]
myst_enable_extensions = ["dollarmath", "amsmath"]
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
html_theme = "furo"
html_static_path = ["_static"]
exclude_patterns = ["_build"]
nitpicky = False
