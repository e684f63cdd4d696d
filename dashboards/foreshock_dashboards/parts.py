"""Building blocks: what every dashboard, query and panel of Foreshock has in common.

- The datasource is a variable, so that a dashboard works provisioned from a file (where nobody fills in inputs) and
  imported by hand.
- Rates use $__rate_interval. Grafana derives it from the query's min step, which is the variable $min_step here: at
  least Prometheus' scrape interval, so that four scrapes fit however long that is.
"""

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, statushistory, table, timeseries, text
from grafana_foundation_sdk.models import common as common_model
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

DATASOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
MIN_STEPS = ("15s", "30s", "1m", "2m", "5m")
GREEN, YELLOW, RED = "green", "#E0B400", "red"


def board(uid, title, description, time_from="now-6h", refresh="30s"):
    """A dashboard with the variables and links that all have."""
    made = (dashboard.Dashboard(title).uid(uid).description(description).tags(["foreshock"]).timezone("browser")
            .time(time_from, "now").refresh(refresh).tooltip(model.DashboardCursorSync.CROSSHAIR).editable())
    made.with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    made.link(dashboard.DashboardLink("Foreshock").type(model.DashboardLinkType.DASHBOARDS).tags(["foreshock"])
              .as_dropdown(True).include_vars(True).keep_time(True))
    return made


def min_step_variable():
    options = [model.VariableOption(text=v, value=v, selected=v == MIN_STEPS[0]) for v in MIN_STEPS]
    return (dashboard.CustomVariable("min_step").label("Min step")
            .description("at least Prometheus' scrape interval: rates look at four of these or more")
            .values(",".join(MIN_STEPS)).options(options).current(options[0]))


def query_variable(name, label, metric_query, multi=False):
    order = model.VariableSort.NUMERICAL_ASC if name == "layer" else model.VariableSort.ALPHABETICAL_ASC
    made = (dashboard.QueryVariable(name).label(label).datasource(DATASOURCE)
            .query({"query": metric_query, "refId": f"variable-{name}"})
            .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(order))
    if multi:
        made.multi(True).include_all(True).all_value(".*")
        made.current(model.VariableOption(text="All", value="$__all", selected=True))
    return made


def custom_variable(name, label, values):
    options = [model.VariableOption(text=v, value=v, selected=i == 0) for i, v in enumerate(values)]
    return dashboard.CustomVariable(name).label(label).values(",".join(values)).options(options).current(options[0])


def query(expr, legend="", ref="A", instant=False):
    made = prometheus.Dataquery().expr(expr).ref_id(ref).datasource(DATASOURCE).interval("$min_step")
    if instant:
        return made.instant().format(PromQueryFormat.TABLE)
    return made.range().legend_format(legend or "__auto")


def alert_annotations(run):
    """A region for as long as a rule fires: the series is there only while it does."""
    colors = {"critical": "red", "warning": "orange"}
    return [dashboard.AnnotationQuery().name(f"{severity} alerts").datasource(DATASOURCE).enable(True)
            .icon_color(color).expr(f'foreshock_rule_alerts_firing{{run=~"{run}",severity="{severity}"}}')
            for severity, color in colors.items()]


def thresholds(*steps):
    """("green", None), ("red", 1): green below 1, red from there on."""
    return (dashboard.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE)
            .steps([model.Threshold(color=color, value=value) for color, value in steps]))


def _common(panel, title, description, queries, width, height):
    panel.title(title).description(description).datasource(DATASOURCE).span(width).height(height)
    for target in queries:
        panel.with_target(target)
    return panel


def lines(title, description, queries, unit="none", width=8, height=8, log=False):
    panel = _common(timeseries.Panel(), title, description, queries, width, height)
    panel.unit(unit).line_width(1).fill_opacity(0).show_points(common_model.VisibilityMode.NEVER)
    panel.legend(common.VizLegendOptions().display_mode(common_model.LegendDisplayMode.LIST)
                 .placement(common_model.LegendPlacement.BOTTOM).show_legend(True))
    panel.tooltip(common.VizTooltipOptions().mode(common_model.TooltipDisplayMode.MULTI)
                  .sort(common_model.SortOrder.DESCENDING))
    if log:
        panel.scale_distribution(common.ScaleDistributionConfig()
                                 .type(common_model.ScaleDistribution.LOG).log(10))
    return panel


def number(title, description, expr, unit="none", steps=((GREEN, None),), width=4, height=4):
    panel = _common(stat.Panel(), title, description, [query(expr, instant=True)], width, height)
    reduce = common.ReduceDataOptions().calcs(["lastNotNull"]).fields("").values(False)
    return (panel.unit(unit).reduce_options(reduce).thresholds(thresholds(*steps))
            .color_mode(common_model.BigValueColorMode.VALUE).graph_mode(common_model.BigValueGraphMode.NONE))


def heat(title, description, queries, width=24, height=10, legend=False):
    """A row a series over time, coloured by its value."""
    panel = _common(statushistory.Panel(), title, description, queries, width, height)
    panel.color_scheme(dashboard.FieldColor().mode(model.FieldColorModeId.CONTINUOUS_BL_YL_RD))
    return (panel.show_value(common_model.VisibilityMode.NEVER).row_height(0.95).fill_opacity(100)
            .max_data_points(120)
            .legend(common.VizLegendOptions().display_mode(common_model.LegendDisplayMode.LIST)
                    .placement(common_model.LegendPlacement.BOTTOM).show_legend(legend)))


def rows_table(title, description, queries, rename, width=24, height=10, sort=None, links=None):
    """Instant queries joined by their labels. rename: {column: header}, in the order to show; others are left out.
    links: {header: url}; sort: (header, descending)."""
    panel = _common(table.Panel(), title, description, queries, width, height).show_header(True)
    panel.with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
    order = {column: i for i, column in enumerate(rename)}
    panel.with_transformation(model.DataTransformerConfig(id_val="filterFieldsByName", options={
        "include": {"names": list(rename)}}))
    panel.with_transformation(model.DataTransformerConfig(id_val="organize", options={
        "indexByName": order, "renameByName": dict(rename), "excludeByName": {}}))
    if sort:
        panel.sort_by([common.TableSortByFieldState().display_name(sort[0]).desc(sort[1])])
    for header, url in (links or {}).items():
        panel.override_by_name(header, [model.DynamicConfigValue(
            id_val="links", value=[{"title": "Open", "url": url, "targetBlank": False}])])
    return panel


def words(title, content, width=24, height=3):
    return text.Panel().title(title).content(content).span(width).height(height)
