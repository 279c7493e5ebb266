from streamlit.testing.v1 import AppTest


def script() -> None:
    from dashboard.widgets.panel import panel

    for control in ("first", "second"):
        with panel("Configuration") as head:
            head.button(control)


def test_a_script_may_call_a_metric_as_another_panel_is_called() -> None:
    page = AppTest.from_function(script, default_timeout=300).run()
    assert not page.exception
    assert [button.label for button in page.button] == ["first", "second"]
