"""`searnn report`: a page about one run or several, complete in one file, and what is off in them in words."""

from searnn.reports.doctor import Finding
from searnn.reports.html import write_page
from searnn.reports.outputs import Outputs
from searnn.reports.page.examples import describe
from searnn.reports.page.following import at_end
from searnn.reports.page.report import page, report
from searnn.reports.recorded import Recorded, read_run

__all__ = ["Finding", "Outputs", "Recorded", "at_end", "describe", "page", "read_run", "report", "write_page"]
