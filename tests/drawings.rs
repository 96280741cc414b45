//! The drawings of doc/architecture.md: doc/drawings/*.txt are their sources, the SVGs beside them are made
//! here, by `IC_UPDATE_DRAWINGS=1 cargo test --test drawings`. Without that the committed ones are compared,
//! and each drawing is checked: no text is wider than its box, nothing lies on something else or outside,
//! no wire crosses words.
//!
//! A source has a thing a line; X,Y is a point in pixels, from the upper left:
//!
//! ```text
//! size WxH                                    first of all
//! group X,Y WxH title                         a frame around boxes
//! box NAME X,Y WxH KIND title | line | line   KIND: plain, lib, user, node, good, bad or ghost
//! arrow END [X,Y]... END [dashed] [@X,Y label | line]   the label's middle is at X,Y
//! line END [X,Y]... END [dashed]              an arrow without a head
//! text X,Y line | line                        words, their middle there
//! ```
//!
//! An END is a point, or NAME.SIDE of a box, or NAME.SIDE+5 (right or down by five), SIDE being t, b, l or r.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const TITLE: f64 = 13.0;
const SMALL: f64 = 12.0;
const LEADING: f64 = 16.0;

/// Colours on a light and on a dark background; the drawing brings its own background.
const STYLE: &str = "
.back{fill:#ffffff}.ink{fill:#1f2328}.dim{fill:#59636e}.halo{stroke:#ffffff}
.wire{stroke:#59636e;fill:none;stroke-width:1.5}.tip{fill:#59636e}
.group{fill:none;stroke:#b7bfc8;stroke-dasharray:5 4}
.plain{fill:#f6f8fa;stroke:#8c959f}.lib{fill:#ddf4ff;stroke:#218bff}.user{fill:#fff8c5;stroke:#bf8700}
.node{fill:#fbefff;stroke:#a475f9}.good{fill:#dafbe1;stroke:#2da44e}.bad{fill:#ffebe9;stroke:#fa4549}
.ghost{fill:none;stroke:#8c959f;stroke-dasharray:4 3}
text{font-family:Helvetica,Arial,'Liberation Sans',sans-serif;text-anchor:middle}
.title{font-size:13px;font-weight:bold}.small{font-size:12px}
.label{font-size:12px;stroke-width:5;paint-order:stroke}
@media(prefers-color-scheme:dark){
.back{fill:#0d1117}.ink{fill:#e6edf3}.dim{fill:#9198a1}.halo{stroke:#0d1117}
.wire{stroke:#9198a1}.tip{fill:#9198a1}.group{stroke:#3d444d}
.plain{fill:#151b23;stroke:#656c76}.lib{fill:#10243e;stroke:#388bfd}.user{fill:#2f2504;stroke:#bb8009}
.node{fill:#231a38;stroke:#8957e5}.good{fill:#0f2a1a;stroke:#2ea043}.bad{fill:#38181a;stroke:#da3633}
.ghost{stroke:#656c76}}
";

type Point = (f64, f64);

/// Left, top, right, bottom.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Area(f64, f64, f64, f64);

impl Area {
    fn overlaps(self, other: Area) -> bool {
        self.0 < other.2 && other.0 < self.2 && self.1 < other.3 && other.1 < self.3
    }

    fn contains(self, other: Area) -> bool {
        self.0 <= other.0 && self.1 <= other.1 && other.2 <= self.2 && other.3 <= self.3
    }

    /// The smallest area around lines of text, their middle given.
    fn of_text(middle: Point, lines: &[String]) -> Area {
        let width = lines.iter().map(|line| width(line, SMALL)).fold(0.0, f64::max);
        let height = LEADING * lines.len() as f64;
        Area(middle.0 - width / 2.0, middle.1 - height / 2.0, middle.0 + width / 2.0, middle.1 + height / 2.0)
    }
}

#[derive(Debug)]
struct Frame {
    name: String,
    area: Area,
    kind: String,
    lines: Vec<String>,
}

#[derive(Debug)]
struct Wire {
    points: Vec<Point>,
    dashed: bool,
    head: bool,
    label: Option<(Point, Vec<String>)>,
}

#[derive(Debug, Default)]
struct Drawing {
    size: Point,
    groups: Vec<Frame>,
    boxes: Vec<Frame>,
    wires: Vec<Wire>,
    texts: Vec<(Point, Vec<String>)>,
}

/// How wide a text is, at least: with room for fonts that are a little wider than Helvetica.
fn width(text: &str, size: f64) -> f64 {
    let of = |c: char| match c {
        'i' | 'j' | 'l' | '\'' | '.' | ',' | ':' | ';' | '|' | '!' => 0.28,
        ' ' | 'f' | 't' | 'r' | '(' | ')' | '-' | '/' => 0.33,
        'm' | 'w' | 'M' | 'W' => 0.88,
        c if c.is_uppercase() => 0.72,
        _ => 0.56,
    };
    1.05 * size * text.chars().map(of).sum::<f64>()
}

fn pair(text: &str, separator: char) -> Result<Point, String> {
    let parse = |part: &str| part.parse().map_err(|_| format!("{text:?} is no pair of numbers"));
    let (a, b) = text.split_once(separator).ok_or_else(|| format!("{text:?} is no pair"))?;
    Ok((parse(a)?, parse(b)?))
}

fn lines_of(text: &str) -> Vec<String> {
    text.split('|').map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

impl Drawing {
    fn read(source: &str) -> Result<Drawing, String> {
        let mut drawing = Drawing::default();
        for line in source.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            drawing.add(line).map_err(|fault| format!("{line}: {fault}"))?;
        }
        Ok(drawing)
    }

    fn add(&mut self, line: &str) -> Result<(), String> {
        let (what, rest) = line.split_once(' ').ok_or("nothing follows")?;
        match what {
            "size" => self.size = pair(rest, 'x')?,
            "group" => {
                let mut words = rest.splitn(3, ' ');
                let area = area(&mut words)?;
                let lines = lines_of(words.next().unwrap_or(""));
                self.groups.push(Frame { name: String::new(), area, kind: "group".to_owned(), lines });
            }
            "box" => {
                let mut words = rest.splitn(5, ' ');
                let name = words.next().unwrap_or("").to_owned();
                let area = area(&mut words)?;
                let kind = words.next().unwrap_or("").to_owned();
                self.boxes.push(Frame { name, area, kind, lines: lines_of(words.next().unwrap_or("")) });
            }
            "arrow" | "line" => {
                let (path, label) = match rest.split_once(" @") {
                    Some((path, label)) => {
                        let (middle, text) = label.split_once(' ').ok_or("a label without words")?;
                        (path, Some((pair(middle, ',')?, lines_of(text))))
                    }
                    None => (rest, None),
                };
                let (path, dashed) = match path.strip_suffix(" dashed") {
                    Some(path) => (path, true),
                    None => (path, false),
                };
                let points = path.split(' ').map(|end| self.point(end)).collect::<Result<Vec<_>, _>>()?;
                self.wires.push(Wire { points, dashed, head: what == "arrow", label });
            }
            "text" => {
                let (middle, text) = rest.split_once(' ').ok_or("no words")?;
                self.texts.push((pair(middle, ',')?, lines_of(text)));
            }
            _ => return Err(format!("{what} is nothing that can be drawn")),
        }
        Ok(())
    }

    /// A point, or the middle of a box's side, or so many pixels right of it or below it.
    fn point(&self, text: &str) -> Result<Point, String> {
        let Some((name, side)) = text.split_once('.') else { return pair(text, ',') };
        let found = self.boxes.iter().find(|frame| frame.name == name);
        let Area(left, top, right, bottom) = found.ok_or_else(|| format!("there is no box {name}"))?.area;
        let (side, off) = side.split_at_checked(1).ok_or("no side")?;
        let off =
            if off.is_empty() { 0.0 } else { off.parse().map_err(|_| format!("{off:?} is no offset"))? };
        let middle = ((left + right) / 2.0, (top + bottom) / 2.0);
        match side {
            "t" => Ok((middle.0 + off, top)),
            "b" => Ok((middle.0 + off, bottom)),
            "l" => Ok((left, middle.1 + off)),
            "r" => Ok((right, middle.1 + off)),
            _ => Err(format!("{side} is no side")),
        }
    }

    /// What would not look well: one line each.
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let page = Area(4.0, 4.0, self.size.0 - 4.0, self.size.1 - 4.0);
        let mut placed: BTreeMap<String, Area> = BTreeMap::new();
        for frame in &self.boxes {
            let Area(left, top, right, bottom) = frame.area;
            for (at, line) in frame.lines.iter().enumerate() {
                let wide = width(line, if at == 0 { TITLE * 1.05 } else { SMALL });
                if wide + 8.0 > right - left {
                    faults.push(format!("{}: {line:?} needs {:.0} pixels", frame.name, wide + 8.0));
                }
            }
            if LEADING * frame.lines.len() as f64 + 6.0 > bottom - top {
                faults.push(format!("{}: too low for its lines", frame.name));
            }
            if placed.insert(format!("box {}", frame.name), frame.area).is_some() {
                faults.push(format!("{}: two boxes of this name", frame.name));
            }
        }
        let labels = self.wires.iter().filter_map(|wire| wire.label.as_ref());
        for (middle, lines) in labels.chain(&self.texts) {
            placed.insert(format!("text {}", lines.join(" ")), Area::of_text(*middle, lines));
        }
        let all: Vec<_> = placed.iter().collect();
        for (at, (name, area)) in all.iter().enumerate() {
            if !page.contains(**area) {
                faults.push(format!("{name} is outside"));
            }
            for (other, elsewhere) in &all[at + 1..] {
                if area.overlaps(**elsewhere) {
                    faults.push(format!("{name} overlaps {other}"));
                }
            }
        }
        for ends in self.wires.iter().flat_map(|wire| wire.points.windows(2)) {
            let (a, b) = (ends[0], ends[1]);
            let segment = Area(a.0.min(b.0), a.1.min(b.1), a.0.max(b.0), a.1.max(b.1));
            if !page.contains(segment) {
                faults.push(format!("a wire to {b:?} is outside"));
            }
            let texts = all.iter().filter(|(name, _)| name.starts_with("text "));
            for (name, _) in texts.filter(|(_, area)| area.overlaps(segment)) {
                faults.push(format!("a wire to {b:?} crosses {name}"));
            }
        }
        faults
    }

    fn svg(&self) -> String {
        let (width, height) = self.size;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\">\n<style>{STYLE}</style>\n<defs><marker id=\"tip\" \
             viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
             <path class=\"tip\" d=\"M0 0L8 4L0 8z\"/></marker></defs>\n\
             <rect class=\"back\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>\n"
        );
        for frame in &self.groups {
            write_area(&mut out, frame, 8);
            let x = frame.area.0 + 10.0;
            for (at, line) in frame.lines.iter().enumerate() {
                let y = frame.area.1 + 17.0 + LEADING * at as f64;
                let style = "style=\"text-anchor:start\"";
                let line = escaped(line);
                let _ = writeln!(out, "<text class=\"small dim\" {style} x=\"{x}\" y=\"{y}\">{line}</text>");
            }
        }
        for wire in &self.wires {
            let path: Vec<_> = wire.points.iter().map(|(x, y)| format!("{x} {y}")).collect();
            let dashed = if wire.dashed { " stroke-dasharray=\"5 4\"" } else { "" };
            let head = if wire.head { " marker-end=\"url(#tip)\"" } else { "" };
            let _ = writeln!(out, "<path class=\"wire\" d=\"M{}\"{dashed}{head}/>", path.join("L"));
        }
        for frame in &self.boxes {
            write_area(&mut out, frame, 5);
            let Area(left, top, right, bottom) = frame.area;
            write_lines(
                &mut out,
                ((left + right) / 2.0, (top + bottom) / 2.0),
                &frame.lines,
                |at| match at {
                    0 => "title ink",
                    _ => "small ink",
                },
            );
        }
        for (middle, lines) in self.wires.iter().filter_map(|wire| wire.label.as_ref()).chain(&self.texts) {
            write_lines(&mut out, *middle, lines, |_| "label dim halo");
        }
        out + "</svg>\n"
    }
}

fn area<'a>(words: &mut impl Iterator<Item = &'a str>) -> Result<Area, String> {
    let (left, top) = pair(words.next().unwrap_or(""), ',')?;
    let (width, height) = pair(words.next().unwrap_or(""), 'x')?;
    Ok(Area(left, top, left + width, top + height))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

fn write_area(out: &mut String, frame: &Frame, radius: u32) {
    let Area(left, top, right, bottom) = frame.area;
    let _ = writeln!(
        out,
        "<rect class=\"{}\" x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{}\" rx=\"{radius}\"/>",
        frame.kind,
        right - left,
        bottom - top
    );
}

fn write_lines(out: &mut String, middle: Point, lines: &[String], class: impl Fn(usize) -> &'static str) {
    let first = middle.1 - LEADING * (lines.len() as f64 - 1.0) / 2.0 + 4.5;
    for (at, line) in lines.iter().enumerate() {
        let y = first + LEADING * at as f64;
        let _ = writeln!(
            out,
            "<text class=\"{}\" x=\"{}\" y=\"{y}\">{}</text>",
            class(at),
            middle.0,
            escaped(line)
        );
    }
}

/// The sources of the drawings.
fn sources() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("doc/drawings");
    let entries = std::fs::read_dir(dir).expect("the drawings").map(|entry| entry.expect("a drawing").path());
    let mut sources: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e == "txt")).collect();
    sources.sort();
    sources
}

#[test]
fn drawings_are_made_of_their_sources_and_look_well() {
    let sources = sources();
    assert!(sources.len() >= 5, "{sources:?}");
    for source in sources {
        let text = std::fs::read_to_string(&source).expect("a source");
        let drawing = Drawing::read(&text).unwrap_or_else(|fault| panic!("{}: {fault}", source.display()));
        let svg = source.with_extension("svg");
        if std::env::var_os("IC_UPDATE_DRAWINGS").is_some() {
            std::fs::write(&svg, drawing.svg()).expect("the drawing can be written");
        }
        let faults = drawing.faults();
        assert!(faults.is_empty(), "{}:\n{}", source.display(), faults.join("\n"));
        let committed = std::fs::read_to_string(&svg).unwrap_or_default();
        assert!(committed == drawing.svg(), "{} is not up to date", svg.display());
    }
}

#[test]
fn what_does_not_look_well_is_found() {
    let drawing = Drawing::read(
        "size 200x100\n# a comment\nbox a 10,10 60x40 lib A\n\
         box b 60,20 60x40 lib a title that is too long | low\nbox c 130,10 60x20 lib c | d\n\
         arrow a.b 40,90 160,90 dashed @100,80 a label\ntext 190,80 half\ntext 100,86 word",
    );
    let faults = drawing.expect("a drawing").faults();
    let expected = [
        "b: \"a title that is too long\" needs",
        "c: too low for its lines",
        "box a overlaps box b",
        "text a label overlaps text word",
        "text half is outside",
        "a wire to (160.0, 90.0) crosses text word",
    ];
    assert_eq!(faults.len(), expected.len(), "{faults:?}");
    for (fault, expected) in faults.iter().zip(expected) {
        assert!(fault.starts_with(expected), "{fault}");
    }
}

#[test]
fn faulty_sources_are_refused() {
    for source in [
        "box",
        "box a 1,2 3 lib",
        "circle 1,2",
        "arrow a.b 1,2",
        "size 10",
        "box a 1,1 9x9 lib A\narrow a.x 1,2",
    ] {
        assert!(Drawing::read(source).is_err(), "{source}");
    }
}
