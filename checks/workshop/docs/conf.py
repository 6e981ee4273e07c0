"""The documentation as a site, by `make docs`: Sphinx's configuration."""

project = "Bisection"
html_title = "Bisection"
html_theme = "furo"
html_show_copyright = html_show_sphinx = False
extensions = ["myst_parser"]
root_doc = "index"
myst_heading_anchors = 6  # as links of the repository have them
suppress_warnings = ["myst.header"]
