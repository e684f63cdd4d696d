// Draws the charts and the layer x head map of a report from the JSON beside it.
(function () {
  'use strict';
  var data = JSON.parse(document.getElementById('data').textContent);
  var special = { 'NaN': NaN, 'Infinity': Infinity, '-Infinity': -Infinity };
  function number(v) { return typeof v === 'string' ? special[v] : v; }
  function css(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }
  function runColor(i) { return css('--run' + (i % 6)); }
  function short(v) {
    if (v === null || v === undefined) return '';
    if (isNaN(v)) return 'NaN';
    if (!isFinite(v)) return v > 0 ? '∞' : '−∞';
    var a = Math.abs(v);
    if (a !== 0 && (a < 0.001 || a >= 1e6)) return v.toExponential(1);
    return String(+v.toPrecision(3));
  }
  function steps(v) { return Math.round(v).toLocaleString('en-US'); }

  // Rows of [step, column 0, column 1, ...] on one axis of steps; what a column does not have is null.
  function table(columns) {
    var rows = new Map();
    columns.forEach(function (column, c) {
      column.steps.forEach(function (step, i) {
        if (!rows.has(step)) rows.set(step, [step].concat(columns.map(function () { return null; })));
        var v = number(column.values[i]);
        rows.get(step)[c + 1] = isFinite(v) ? v : NaN;
      });
    });
    return Array.from(rows.values()).sort(function (a, b) { return a[0] - b[0]; });
  }

  var charts = [];
  function chart(element, columns, labels, colors, more) {
    var options = {
      labels: ['step'].concat(labels), connectSeparatedPoints: true, strokeWidth: 1.5, highlightCircleSize: 3,
      axisLineColor: css('--axis'), gridLineColor: css('--grid'), gridLineWidth: 0.5, colors: colors(),
      axisLabelFontSize: 12, legend: 'never', rightGap: 12,
      axes: {
        x: { axisLabelFormatter: steps, valueFormatter: function (v) { return 'step ' + steps(v); }, axisLabelWidth: 70 },
        y: { axisLabelFormatter: short, valueFormatter: short, axisLabelWidth: 52 }
      }
    };
    for (var key in more) options[key] = more[key];
    var graph = new Dygraph(element, table(columns), options);
    charts.push({ graph: graph, colors: colors });
    return graph;
  }

  function drawLoss() {
    var element = document.getElementById('loss');
    if (!element) return;
    var runs = data.runs.map(function (run, i) { return { run: run, i: i }; })
      .filter(function (r) { return r.run.lossSteps.length > 0; });
    var labels = runs.map(function (r) { return r.run.run; });
    var legend = document.getElementById('loss-legend');
    function showLegend(values) {
      legend.textContent = '';
      runs.forEach(function (r, k) {
        var item = document.createElement('span'), key = document.createElement('span');
        key.className = 'key';
        key.style.background = runColor(r.i);
        item.appendChild(key);
        item.appendChild(document.createTextNode(r.run.run + (values ? '  ' + short(values[k]) : '')));
        legend.appendChild(item);
      });
      if (values) legend.insertAdjacentText('beforeend', 'step ' + steps(values.step));
    }
    var graph = chart(element,
      runs.map(function (r) { return { steps: r.run.lossSteps, values: r.run.loss }; }), labels,
      function () { return runs.map(function (r) { return runColor(r.i); }); }, {
        highlightCallback: function (event, x, points, row) {
          var values = labels.map(function (label) {
            var p = points.filter(function (q) { return q.name === label; })[0];
            return p ? p.yval : null;
          });
          values.step = x;
          showLegend(values);
        },
        unhighlightCallback: function () { showLegend(null); }
      });
    showLegend(null);
    graph.ready(function () { graph.setAnnotations(marks(runs)); });
  }

  // At most ten alerts a run, worst first; the table below has all.
  function marks(runs) {
    var letters = { critical: 'C', warning: 'W', guard: 'G', action: 'A', collapse: '✕', note: '·', info: 'i' };
    var order = ['collapse', 'guard', 'action', 'critical', 'warning', 'note', 'info'];
    var out = [], used = {};
    runs.forEach(function (r) {
      r.run.marks.filter(function (mark) { return mark.kind !== 'info'; }).sort(function (a, b) { return order.indexOf(a.kind) - order.indexOf(b.kind); })
        .slice(0, 10).forEach(function (mark) {
          var at = r.run.lossSteps.filter(function (s) { return s >= mark.step; })[0];
          if (at === undefined) at = r.run.lossSteps[r.run.lossSteps.length - 1];
          var key = r.i + '/' + at;
          used[key] = (used[key] || 0) + 1;
          out.push({
            series: r.run.run, x: at, shortText: letters[mark.kind] || '·', cssClass: 'mark ' + mark.kind,
            text: r.run.run + ', step ' + steps(mark.step) + ': ' + mark.text, tickHeight: 6 + 20 * (used[key] - 1)
          });
        });
    });
    return out;
  }

  function firstCritical(run) {
    return run.marks.filter(function (m) { return m.kind === 'critical'; })[0];
  }

  function drawHeads() {
    document.querySelectorAll('.chart[data-signal]').forEach(function (element) {
      var signal = data.panels[+element.dataset.panel].signals[+element.dataset.signal];
      var columns = [{ steps: signal.medianSteps, values: signal.median }].concat(signal.lines);
      var labels = ['layer median'].concat(signal.lines.map(function (line) { return data.runs[line.run].run; }));
      chart(element, columns, labels, function () {
        return [css('--axis')].concat(signal.lines.map(function (line) { return runColor(line.run); }));
      }, {
        legend: 'onmouseover',
        underlayCallback: function (context, area, g) {
          signal.lines.forEach(function (line) {
            var critical = firstCritical(data.runs[line.run]);
            if (!critical) return;
            var x = g.toDomXCoord(critical.step);
            if (x < area.x || x > area.x + area.w) return;
            context.save();
            context.strokeStyle = runColor(line.run);
            context.setLineDash([4, 3]);
            context.beginPath();
            context.moveTo(x, area.y);
            context.lineTo(x, area.y + area.h);
            context.stroke();
            context.restore();
          });
        }
      });
    });
  }

  // Colours of the map: dark blue over green to yellow, readable for the colour-blind.
  var ramp = [[38, 42, 98], [47, 92, 140], [32, 138, 137], [82, 184, 104], [187, 213, 52], [253, 226, 60]];
  function color(t) {
    var x = Math.max(0, Math.min(1, t)) * (ramp.length - 1), i = Math.min(ramp.length - 2, Math.floor(x)), f = x - i;
    return ramp[i].map(function (c, k) { return Math.round(c + f * (ramp[i + 1][k] - c)); });
  }
  function cssColor(rgb) { return 'rgb(' + rgb.join(',') + ')'; }

  // One scale for all steps of a map; logarithmic where the values span more than a factor of 20.
  function scaleOf(map) {
    var low = Infinity, high = -Infinity;
    map.values.forEach(function (raw) {
      var v = number(raw);
      if (v === null || !isFinite(v)) return;
      low = Math.min(low, v);
      high = Math.max(high, v);
    });
    var log = low > 0 && high / low > 20;
    function f(v) { return log ? Math.log(v) : v; }
    return {
      low: low, high: high, log: log,
      at: function (v) { return high > low ? (f(Math.max(v, low)) - f(low)) / (f(high) - f(low)) : 0.3; }
    };
  }

  function drawMap() {
    var select = document.getElementById('map-select');
    if (!select) return;
    var slider = document.getElementById('map-step'), output = document.getElementById('map-output');
    var map, scale, cells;
    function value(s, l, h) { return number(map.values[s * cells + l * map.heads + h]); }
    // Of cell (l, h) of the row: 'missing', 'nan', or a colour.
    function fill(v) { return v === null ? null : isFinite(v) ? color(scale.at(v)) : 'bad'; }

    function drawTable(s) {
      var box = document.getElementById('map'), t = document.createElement('table'), worst = null;
      t.className = 'map';
      map.layers.forEach(function (_, l) {
        for (var h = 0; h < map.heads; h++) {
          var v = value(s, l, h);
          if (v !== null && isFinite(v) && (!worst || v > worst.v)) worst = { v: v, l: l, h: h };
        }
      });
      var head = t.createTHead().insertRow();
      head.appendChild(document.createElement('th'));
      for (var h = 0; h < map.heads; h++) {
        var th = document.createElement('th');
        th.textContent = map.heads <= 32 || h % 4 === 0 ? h : '';
        head.appendChild(th);
      }
      var body = t.createTBody();
      map.layers.forEach(function (layer, l) {
        var row = body.insertRow(), name = document.createElement('th');
        name.textContent = 'layer ' + layer;
        row.appendChild(name);
        for (var h = 0; h < map.heads; h++) {
          var v = value(s, l, h), cell = row.insertCell(), c = fill(v);
          if (c === null) cell.className = 'missing';
          else if (c === 'bad') cell.className = 'nan';
          else {
            cell.style.background = cssColor(c);
            cell.style.color = c[0] * 0.3 + c[1] * 0.6 + c[2] * 0.1 > 130 ? '#111' : '#fff';
          }
          if (map.heads <= 16) cell.style.minWidth = '52px';
          cell.textContent = map.heads <= 16 ? short(v) : c === 'bad' ? '!' : '';
          cell.title = 'layer ' + layer + ', head ' + h + ': ' + (v === null ? 'not measured' : short(v));
          if (worst && worst.l === l && worst.h === h) cell.classList.add('worst');
        }
      });
      box.textContent = '';
      box.appendChild(t);
    }

    function drawSmall() {
      var box = document.getElementById('map-small'), count = Math.min(12, map.steps.length);
      box.textContent = '';
      for (var k = 0; k < count; k++) {
        (function (s) {
          var figure = document.createElement('figure'), caption = document.createElement('figcaption');
          var canvas = document.createElement('canvas'), context;
          canvas.width = map.heads;
          canvas.height = map.layers.length;
          var zoom = Math.max(2, Math.min(16, Math.floor(130 / Math.max(map.heads, map.layers.length))));
          canvas.style.width = map.heads * zoom + 'px';
          canvas.style.height = map.layers.length * zoom + 'px';
          context = canvas.getContext('2d');
          var image = context.createImageData(canvas.width, canvas.height);
          for (var i = 0; i < cells; i++) {
            var v = number(map.values[s * cells + i]), c = fill(v);
            if (c === null) continue;
            if (c === 'bad') c = [220, 40, 40];
            image.data.set([c[0], c[1], c[2], 255], i * 4);
          }
          context.putImageData(image, 0, 0);
          caption.textContent = steps(map.steps[s]);
          figure.appendChild(caption);
          figure.appendChild(canvas);
          figure.onclick = function () { show(s); };
          box.appendChild(figure);
        })(Math.round(k * (map.steps.length - 1) / Math.max(1, count - 1)));
      }
    }

    function drawScale() {
      var box = document.getElementById('map-scale'), stops = [];
      for (var i = 0; i <= 10; i++) stops.push(cssColor(color(i / 10)));
      box.innerHTML = '<span></span><i></i><span></span><span></span>';
      var parts = box.querySelectorAll('span');
      parts[0].textContent = short(scale.low);
      box.querySelector('i').style.background = 'linear-gradient(90deg,' + stops.join(',') + ')';
      parts[1].textContent = short(scale.high) + (scale.log ? ' (logarithmic)' : '');
      parts[2].textContent = map.meaning + '. Columns are heads; the outlined head is the largest, hatched ones were not measured, red ones are not finite.';
    }

    function show(s) {
      slider.value = s;
      output.textContent = 'step ' + steps(map.steps[s]);
      drawTable(s);
    }
    function choose() {
      var at = select.value.split('/');
      map = data.runs[+at[0]].maps[+at[1]];
      cells = map.layers.length * map.heads;
      scale = scaleOf(map);
      slider.max = map.steps.length - 1;
      drawScale();
      drawSmall();
      show(map.steps.length - 1);
    }
    // The run that is worst off first.
    var worst = data.runs.findIndex(function (r) { return firstCritical(r) && r.maps.length; });
    if (worst >= 0) select.value = worst + '/0';
    select.onchange = choose;
    slider.oninput = function () { show(+slider.value); };
    choose();
  }

  function colorKeys() {
    document.querySelectorAll('td .key[data-run]').forEach(function (key) {
      key.style.background = runColor(+key.dataset.run);
    });
  }
  function recolor() {
    colorKeys();
    charts.forEach(function (c) {
      c.graph.updateOptions({ colors: c.colors(), axisLineColor: css('--axis'), gridLineColor: css('--grid') });
    });
  }

  colorKeys();
  drawLoss();
  drawHeads();
  drawMap();
  // How high the drawn page is: `foreshock report --png` asks.
  document.documentElement.dataset.height = document.documentElement.scrollHeight;
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', recolor);
  window.addEventListener('beforeprint', recolor);
  window.addEventListener('afterprint', recolor);
})();
