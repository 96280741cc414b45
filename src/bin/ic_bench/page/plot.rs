//! A plot as SVG: lines with dots over two axes, each linear from zero or logarithmic.

use std::fmt::Write;

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 44.0;
/// Colours that the page's style names.
const COLORS: usize = 6;

/// How numbers are spread over an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    FromZero,
    Log,
}

/// An axis: its ends and the marks between.
#[derive(Debug)]
pub struct Axis {
    label: &'static str,
    scale: Scale,
    from: f64,
    to: f64,
    marks: Vec<f64>,
}

/// Points that are joined, each with a text to be shown when pointed at.
#[derive(Debug)]
pub struct Line {
    pub name: String,
    pub color: usize,
    pub dashed: bool,
    pub points: Vec<(f64, f64, String)>,
}

/// A plot.
#[derive(Debug)]
pub struct Plot {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub lines: Vec<Line>,
}

/// A colour in CSS.
pub fn color(number: usize) -> String {
    format!("var(--c{})", number % COLORS)
}

impl Axis {
    /// An axis that holds all of the values; those it cannot hold are left out of the plot.
    pub fn new(label: &'static str, scale: Scale, values: Vec<f64>) -> Axis {
        let held = values.into_iter().filter(|value| value.is_finite() && *value > 0.0);
        let (least, most) =
            held.fold((f64::INFINITY, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
        let (least, most) = if most > 0.0 { (least, most) } else { (1.0, 1.0) };
        match scale {
            Scale::FromZero => {
                let step = step(most);
                let count = (most * 1.02 / step).ceil();
                let marks = (0..=count as u32).map(|n| n as f64 * step).collect();
                Axis { label, scale, from: 0.0, to: count * step, marks }
            }
            Scale::Log => {
                let (from, to) = (least / 1.15, most * 1.15);
                Axis { label, scale, from, to, marks: log_marks(from, to) }
            }
        }
    }

    /// Where a value is, 0 to 1.
    fn place(&self, value: f64) -> Option<f64> {
        let place = match self.scale {
            Scale::FromZero => value / self.to,
            Scale::Log => (value / self.from).ln() / (self.to / self.from).ln(),
        };
        (place.is_finite() && value > 0.0 || value == 0.0 && self.scale == Scale::FromZero).then_some(place)
    }
}

/// A round distance of marks of which four to eight reach `most`.
fn step(most: f64) -> f64 {
    let power = 10_f64.powf(most.log10().floor());
    let steps = [0.1, 0.2, 0.25, 0.5, 1.0, 2.0].map(|factor| factor * power);
    steps.into_iter().find(|step| most / step <= 6.0).unwrap_or(power)
}

/// Round numbers between two: powers of ten with as many of their multiples as leave room for their texts.
fn log_marks(from: f64, to: f64) -> Vec<f64> {
    let decades = (to / from).log10();
    let multiples: &[f64] = match decades {
        _ if decades > 4.0 => &[1.0],
        _ if decades > 2.2 => &[1.0, 3.0],
        _ if decades > 0.9 => &[1.0, 2.0, 5.0],
        _ => &[1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0],
    };
    let powers = from.log10().floor() as i32..=to.log10().ceil() as i32;
    let all = powers.flat_map(|power| multiples.iter().map(move |multiple| multiple * 10_f64.powi(power)));
    all.filter(|mark| (from..=to).contains(mark)).collect()
}

/// A number in as few characters as tell it.
fn short(number: f64) -> String {
    let (scaled, unit) = match number {
        _ if number >= 1e6 => (number / 1e6, "M"),
        _ if number >= 1e3 => (number / 1e3, "k"),
        _ => (number, ""),
    };
    let text = format!("{scaled:.2}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

impl Plot {
    /// The plot as an element.
    pub fn svg(&self) -> String {
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{0}\">\
             <text x=\"4\" y=\"16\" font-weight=\"600\" font-size=\"13\">{0}</text>",
            self.title
        );
        self.axes(&mut svg);
        self.lines.iter().for_each(|line| self.line(line, &mut svg));
        svg + "</svg>"
    }

    fn across(place: f64) -> f64 {
        LEFT + place * (WIDTH - LEFT - RIGHT)
    }

    fn down(place: f64) -> f64 {
        HEIGHT - BOTTOM - place * (HEIGHT - TOP - BOTTOM)
    }

    fn axes(&self, svg: &mut String) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let soft = "style=\"fill:var(--soft)\"";
        for &mark in &self.y.marks {
            let Some(y) = self.y.place(mark).map(Plot::down) else { continue };
            let _ = write!(
                svg,
                "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" style=\"stroke:var(--grid)\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" {soft}>{}</text>",
                LEFT - 6.0,
                y + 4.0,
                short(mark)
            );
        }
        for &mark in &self.x.marks {
            let Some(x) = self.x.place(mark).map(Plot::across) else { continue };
            let _ = write!(
                svg,
                "<line x1=\"{x:.1}\" y1=\"{bottom}\" x2=\"{x:.1}\" y2=\"{}\" style=\"stroke:var(--soft)\"/>\
                 <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\" {soft}>{}</text>",
                bottom + 4.0,
                bottom + 17.0,
                short(mark)
            );
        }
        let _ = write!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{bottom}\" x2=\"{right}\" y2=\"{bottom}\" style=\"stroke:var(--soft)\"/>\
             <text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\" {soft}>{}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 8.0,
            self.x.label
        );
    }

    fn line(&self, line: &Line, svg: &mut String) {
        let color = color(line.color);
        let mut places = Vec::new();
        for (x, y, text) in &line.points {
            if let (Some(x), Some(y)) = (self.x.place(*x), self.y.place(*y)) {
                places.push((Plot::across(x), Plot::down(y), text));
            }
        }
        let path: Vec<_> = places.iter().map(|(x, y, _)| format!("{x:.1},{y:.1}")).collect();
        let (dash, width) = if line.dashed { ("4 4", 1.3) } else { ("none", 2.0) };
        let _ = write!(
            svg,
            "<g style=\"stroke:{color};fill:{color}\"><polyline points=\"{}\" style=\"fill:none;stroke-width:{width};\
             stroke-dasharray:{dash}\"/>",
            path.join(" ")
        );
        let radius = if line.dashed { 1.8 } else { 3.0 };
        for (x, y, text) in places {
            let name = &line.name;
            let _ = write!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"><title>{name}: {text}</title></circle>"
            );
        }
        *svg += "</g>";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_few_and_round() {
        for most in [0.37, 1.0, 9.9, 123.0, 250_000.0, 7.1e6] {
            let axis = Axis::new("", Scale::FromZero, vec![most]);
            assert!((3..=8).contains(&axis.marks.len()), "{axis:?}");
            assert!(axis.to >= most && axis.to < 1.6 * most, "{axis:?}");
        }
        for (least, most) in [(1.0, 1600.0), (0.35, 20.0), (0.4, 0.7), (100.0, 100.0), (1.0, 1e6)] {
            let axis = Axis::new("", Scale::Log, vec![most, least]);
            assert!((1..=9).contains(&axis.marks.len()), "{axis:?}");
            assert!(
                axis.marks.iter().all(|&mark| axis.place(mark).is_some_and(|at| (0.0..=1.0).contains(&at)))
            );
        }
    }

    #[test]
    fn places() {
        let log = Axis::new("", Scale::Log, vec![1.0, 100.0]);
        assert!((log.place(10.0).unwrap() - 0.5).abs() < 1e-9);
        assert_eq!((log.place(0.0), log.place(f64::NAN)), (None, None));
        let linear = Axis::new("", Scale::FromZero, vec![0.0, 8.0]);
        assert_eq!(linear.place(0.0), Some(0.0));
        assert!(linear.place(8.0).unwrap() <= 1.0);
    }

    #[test]
    fn short_numbers() {
        for (number, text) in [
            (0.0, "0"),
            (0.25, "0.25"),
            (20.0, "20"),
            (1500.0, "1.5k"),
            (800_000.0, "800k"),
            (1.25e6, "1.25M"),
        ] {
            assert_eq!(short(number), text);
        }
    }
}
