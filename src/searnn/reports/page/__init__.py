"""`searnn report`: a page about one run or several, complete in one file, and what is off in them in words."""

from searnn.reports.page.doctor import examine
from searnn.reports.page.ending import at_end
from searnn.reports.page.findings import Finding
from searnn.reports.page.html import write_page
from searnn.reports.page.outputs import Outputs, collect, describe, numbered
from searnn.reports.page.recorded import Recorded, read_run
from searnn.reports.page.report import page, report

__all__ = [
    "Finding",
    "Outputs",
    "Recorded",
    "at_end",
    "collect",
    "describe",
    "examine",
    "numbered",
    "page",
    "read_run",
    "report",
    "write_page",
]
