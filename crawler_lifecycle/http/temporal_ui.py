"""Links from runs and flows to their workflows in Temporal's Web UI."""

from urllib.parse import quote

from crawler_lifecycle.http.state import AnyApi


def workflow_url(api: AnyApi, workflow_id: str) -> str | None:
    """Return the address of the workflow's last execution in Temporal's Web UI; None without a setting for the UI."""
    if api.settings.temporal_ui is None:
        return None
    namespace, workflow = quote(api.control.engine.namespace, safe=""), quote(workflow_id, safe="")
    return f"{api.settings.temporal_ui.rstrip('/')}/namespaces/{namespace}/workflows/{workflow}"
