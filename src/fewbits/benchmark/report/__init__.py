"""The report: every table of the paper and its pictures on one page that needs nothing else, and as Markdown."""

from fewbits.benchmark.report.page import render_page
from fewbits.benchmark.report.write import write_report

__all__ = ["render_page", "write_report"]
