//! The page of a sweep: one file of HTML with its plots inside, which needs nothing else, for light and dark screens.

mod plot;

use std::fmt::Write;

use crate::figures::grouped;
use plot::{Axis, Line, Plot, Scale};

/// A run of a sweep. Times are microseconds.
#[derive(Debug, Clone)]
pub struct Point {
    pub threads: u16,
    pub depth: u32,
    pub batch: u32,
    pub per_second: f64,
    pub cpu: f64,
    pub p50: f64,
    pub p99: f64,
    pub clean: bool,
}

const STYLE: &str = "
:root { color-scheme: light dark; --page: #fff; --text: #1c2024; --soft: #667; --grid: #e3e6ea;
  --c0: #0b6bcb; --c1: #c2570c; --c2: #1a7f4b; --c3: #8b3fb5; --c4: #a3194d; --c5: #5d6a00; }
@media (prefers-color-scheme: dark) { :root { --page: #14171a; --text: #e8eaed; --soft: #9aa4ae; --grid: #2c3238;
  --c0: #6cb2ff; --c1: #ffa15c; --c2: #5fd39a; --c3: #d39bf2; --c4: #ff88ab; --c5: #cbd35a; } }
body { background: var(--page); color: var(--text); font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto;
  max-width: 78rem; padding: 0 1rem; }
h1 { font-size: 1.35rem; margin: 0 0 .2rem; } h2 { font-size: 1.05rem; margin: 1.8rem 0 .4rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); }
.top { display: flex; flex-wrap: wrap; gap: 2.5rem; margin: 1rem 0; }
.top b { display: block; font-size: 1.7rem; font-weight: 600; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(21rem, 1fr)); gap: 1rem; }
svg { width: 100%; height: auto; font: 12px system-ui, sans-serif; fill: var(--text); }
.legend { display: flex; flex-wrap: wrap; gap: 1.2rem; margin: .6rem 0; }
.legend i { display: inline-block; width: 1.6rem; height: .22rem; margin-right: .4rem; vertical-align: middle;
  border-radius: 1px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
td, th { padding: .18rem .9rem .18rem 0; text-align: right; border-bottom: 1px solid var(--grid); font-weight: 400; }
th { color: var(--soft); } tr.best td { font-weight: 600; }
";

/// The whole page.
pub fn page(title: &str, points: &[Point]) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>ic_bench: {title}</title>\
         <style>{STYLE}</style></head>\n<body><h1>ic_bench: {title}</h1>\n\
         <p class=\"soft\">Depth: batches in flight per thread. Batch: operations that are sent at once and awaited \
         together.</p>\n"
    );
    html += &headlines(points);
    html += &legend(points);
    for threads in distinct(points.iter().map(|point| point.threads)) {
        let name = if threads == 1 { "1 thread".into() } else { format!("{threads} threads") };
        let _ = write!(html, "<h2>{name}</h2>\n<div class=\"plots\">");
        plots(points, threads).iter().for_each(|plot| html += &plot.svg());
        html += "</div>\n";
    }
    html += &table(points);
    html += "</body></html>\n";
    html
}

fn headlines(points: &[Point]) -> String {
    let (Some(fastest), Some(cheapest)) = (fastest(points), cheapest(points)) else { return String::new() };
    let how = |point: &Point| {
        let threads = if point.threads == 1 { "thread" } else { "threads" };
        format!("{} {threads}, depth {}, batch {}", point.threads, point.depth, point.batch)
    };
    let mut html = format!(
        "<div class=\"top\"><div><b>{}</b>operations a second, the most<p class=\"soft\">{}</p></div>\
         <div><b>{:.2} µs</b>client CPU per operation, the least<p class=\"soft\">{}</p></div></div>\n",
        grouped(fastest.per_second),
        how(fastest),
        cheapest.cpu,
        how(cheapest)
    );
    let faulty = points.iter().filter(|point| !point.clean).count();
    if faulty > 0 {
        let _ = writeln!(html, "<p><b>{faulty} runs had errors, missing rows or wrong values.</b></p>");
    }
    html
}

fn fastest(points: &[Point]) -> Option<&Point> {
    points.iter().max_by(|a, b| a.per_second.total_cmp(&b.per_second))
}

fn cheapest(points: &[Point]) -> Option<&Point> {
    points.iter().filter(|point| !point.cpu.is_nan()).min_by(|a, b| a.cpu.total_cmp(&b.cpu))
}

fn legend(points: &[Point]) -> String {
    let depths = distinct(points.iter().map(|point| point.depth));
    let entry = |(color, depth): (usize, &u32)| {
        format!("<span><i style=\"background:{}\"></i>depth {depth}</span>", plot::color(color))
    };
    let entries: String = depths.iter().enumerate().map(entry).collect();
    format!(
        "<div class=\"legend\">{entries}<span class=\"soft\">latency: solid p50, dashed p99</span></div>\n"
    )
}

/// The plots of a number of threads, on the axes that all have in common.
fn plots(points: &[Point], threads: u16) -> [Plot; 3] {
    let of = |value: fn(&Point) -> f64| points.iter().map(value).collect::<Vec<_>>();
    let in_flight = |point: &Point| (point.depth * point.batch) as f64;
    let batch = |point: &Point| point.batch as f64;
    let (per_second, cpu) = (|point: &Point| point.per_second, |point: &Point| point.cpu);
    let (p50, p99) = (|point: &Point| point.p50, |point: &Point| point.p99);
    let lines = |x: fn(&Point) -> f64, y: fn(&Point) -> f64, dashed: bool| {
        let depths = distinct(points.iter().map(|point| point.depth));
        let line = |(color, depth): (usize, &u32)| Line {
            name: format!("depth {depth}"),
            color,
            dashed,
            points: points
                .iter()
                .filter(|point| point.threads == threads && point.depth == *depth)
                .map(|point| (x(point), y(point), about(point)))
                .collect(),
        };
        depths.iter().enumerate().map(line).collect::<Vec<_>>()
    };
    let mut latency = lines(per_second, p50, false);
    latency.extend(lines(per_second, p99, true));
    let latencies = [of(p50), of(p99)].concat();
    [
        Plot {
            title: "Operations a second".into(),
            x: Axis::new("operations in flight per thread", Scale::Log, of(in_flight)),
            y: Axis::new("", Scale::FromZero, of(per_second)),
            lines: lines(in_flight, per_second, false),
        },
        Plot {
            title: "Client CPU per operation, µs".into(),
            x: Axis::new("operations of a batch", Scale::Log, of(batch)),
            y: Axis::new("", Scale::Log, of(cpu)),
            lines: lines(batch, cpu, false),
        },
        Plot {
            title: "Latency against load, µs".into(),
            x: Axis::new("operations a second", Scale::FromZero, of(per_second)),
            y: Axis::new("", Scale::Log, latencies),
            lines: latency,
        },
    ]
}

fn about(point: &Point) -> String {
    let Point { depth, batch, per_second, cpu, p50, p99, .. } = point;
    format!(
        "depth {depth}, batch {batch}: {} operations a second, {cpu:.3} µs of CPU each, p50 {p50:.0} µs, p99 {p99:.0} µs",
        grouped(*per_second)
    )
}

fn table(points: &[Point]) -> String {
    let mut html = "<h2>Every run</h2>\n<div class=\"scroll\"><table><tr><th>threads</th><th>depth</th><th>batch</th>\
        <th>operations a second</th><th>client CPU per operation, µs</th><th>p50, µs</th><th>p99, µs</th></tr>\n"
        .to_owned();
    let best = [fastest(points), cheapest(points)];
    for point in points {
        let is_best = best.iter().flatten().any(|best| std::ptr::eq(*best, point));
        let class = if is_best { " class=\"best\"" } else { "" };
        let fault = if point.clean { "" } else { " (faulty)" };
        let Point { threads, depth, batch, per_second, cpu, p50, p99, .. } = point;
        let _ = writeln!(
            html,
            "<tr{class}><td>{threads}</td><td>{depth}</td><td>{batch}</td><td>{}{fault}</td><td>{cpu:.3}</td>\
             <td>{p50:.0}</td><td>{p99:.0}</td></tr>",
            grouped(*per_second)
        );
    }
    html + "</table></div>\n"
}

fn distinct<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = values.collect();
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(threads: u16, depth: u32, batch: u32) -> Point {
        let load = (depth * batch) as f64;
        let cpu = 0.4 + 20.0 / batch as f64;
        Point {
            threads,
            depth,
            batch,
            per_second: 1000.0 * load,
            cpu,
            p50: load,
            p99: 2.0 * load,
            clean: true,
        }
    }

    #[test]
    fn everything_is_on_the_page() {
        let points: Vec<_> = [(1, 1, 10), (1, 1, 100), (1, 2, 10), (2, 2, 100)]
            .into_iter()
            .map(|(threads, depth, batch)| point(threads, depth, batch))
            .collect();
        let html = page("read", &points);
        assert_eq!(html.matches("<svg").count(), 6, "three plots for each number of threads");
        assert_eq!(html.matches("<tr").count(), 5, "a header and the runs");
        assert!(html.contains("<b>200 000</b>") && html.contains("2 threads, depth 2, batch 100"));
        assert!(!html.contains("NaN") && !html.contains("inf"), "{html}");
        for outside in ["http:", "https:", "src=", "href=", "url(", "@import", "<script"] {
            assert!(!html.contains(outside), "{outside}");
        }
        assert!(html.contains("prefers-color-scheme: dark"));
    }

    #[test]
    fn a_run_that_did_nothing_breaks_no_plot() {
        let nothing =
            Point { per_second: 0.0, cpu: f64::NAN, p50: 0.0, p99: 0.0, clean: false, ..point(1, 1, 1) };
        let html = page("read", &[nothing, point(1, 1, 10)]);
        assert!(html.contains("1 runs had errors") && html.contains("(faulty)"));
        assert!(!html.contains("\"NaN") && !html.contains("inf\""), "{html}");
        assert!(page("read", &[]).contains("</html>"));
    }
}
