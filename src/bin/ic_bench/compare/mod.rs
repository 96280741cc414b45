//! Comparisons with programs on the NDB API: theirs and ours run in turn on the same cluster with the same work, and
//! each pair gives a ratio. What disturbs the machine for longer than a pair disturbs both, and as who goes first
//! changes, what one leaves behind for the next is on both sides too.

mod flex;
mod ours;
mod sync;

use std::fmt::Write;
use std::io::IsTerminal;

use iclaustron::error::Error;
use serde_json::{Value, json};

use crate::figures::{Spread, grouped};
use crate::options::{Compare, Pairs, SyncCompare};
use crate::{nodes, print};

/// What a run has shown.
#[derive(Debug, Clone)]
struct Measured {
    per_second: f64,
    /// Client CPU per operation in nanoseconds.
    cpu: f64,
    /// Latency in microseconds, if the program tells it.
    p50: Option<f64>,
    /// All that there is, for programs.
    json: Value,
}

/// Something that both can do.
trait Contest {
    /// What it is, in words and as fields of an object.
    fn title(&self) -> String;
    fn fields(&self) -> Value;
    /// What is to be done before the first run.
    fn prepare(&mut self) -> Result<(), Error>;
    fn theirs(&self) -> Result<Measured, Error>;
    fn ours(&self) -> Result<Measured, Error>;
}

/// Against flexAsynch.
pub fn with_flex(compare: &Compare) -> Result<bool, Error> {
    let nodes = nodes::choose(compare.pairs.connectstring.as_deref())?;
    let mut contests = flex::contests(compare, nodes.connectstring())?;
    let done = run("flexAsynch", &mut contests, &compare.pairs);
    if let Some(contest) = contests.first() {
        contest.clean_up();
    }
    done
}

/// Against ndbsync.
pub fn with_ndbsync(compare: &SyncCompare) -> Result<bool, Error> {
    let nodes = nodes::choose(compare.pairs.connectstring.as_deref())?;
    let mut contests = [sync::Reads::new(compare, nodes.connectstring())];
    run("ndbsync", &mut contests, &compare.pairs)
}

fn run(name: &str, contests: &mut [impl Contest], pairs: &Pairs) -> Result<bool, Error> {
    let mut results = Vec::new();
    for contest in contests {
        contest.prepare()?;
        let mut all = Vec::new();
        for number in 0..pairs.pairs {
            if std::io::stderr().is_terminal() && !pairs.json {
                eprintln!("{}: pair {} of {}", contest.title(), number + 1, pairs.pairs);
            }
            all.push(pair(contest, number)?);
        }
        if pairs.json {
            results.push(json(name, contest, &all));
        } else {
            print(table(name, &contest.title(), &all));
        }
    }
    if pairs.json {
        print(json!({ "comparisons": results }));
    }
    Ok(true)
}

/// Theirs and ours.
type Pair = (Measured, Measured);

fn pair(contest: &impl Contest, number: u32) -> Result<Pair, Error> {
    if number.is_multiple_of(2) {
        let theirs = contest.theirs()?;
        Ok((theirs, contest.ours()?))
    } else {
        let ours = contest.ours()?;
        Ok((contest.theirs()?, ours))
    }
}

fn cpu_ratio((theirs, ours): &Pair) -> f64 {
    ours.cpu / theirs.cpu
}

fn throughput_ratio((theirs, ours): &Pair) -> f64 {
    ours.per_second / theirs.per_second
}

fn p50_ratio((theirs, ours): &Pair) -> Option<f64> {
    Some(ours.p50? / theirs.p50?)
}

fn json(name: &str, contest: &impl Contest, pairs: &[Pair]) -> Value {
    let each = pairs.iter().map(|pair| {
        let (theirs, ours) = pair;
        let ratios = (cpu_ratio(pair), throughput_ratio(pair));
        json!({ name: theirs.json, "ic_bench": ours.json, "cpu_ratio": ratios.0, "throughput_ratio": ratios.1 })
    });
    let mut object = contest.fields();
    object["against"] = json!(name);
    object["pairs"] = each.collect();
    object["cpu_ratio"] = Spread::of(pairs.iter().map(cpu_ratio)).json();
    object["throughput_ratio"] = Spread::of(pairs.iter().map(throughput_ratio)).json();
    let p50: Vec<f64> = pairs.iter().filter_map(p50_ratio).collect();
    if !p50.is_empty() {
        object["p50_ratio"] = Spread::of(p50).json();
    }
    object
}

fn table(name: &str, title: &str, pairs: &[Pair]) -> String {
    let with_latency = pairs.iter().all(|pair| p50_ratio(pair).is_some());
    let mut text = format!(
        "{title}\n  {:<6}{:<12}{:>14}{:>20}{}",
        "pair",
        "",
        "ops a second",
        "client CPU per op",
        if with_latency { "         p50" } else { "" }
    );
    for (number, pair) in pairs.iter().enumerate() {
        let mut line = |number: &str, name: &str, measured: &Measured| {
            let (per_second, cpu) = (grouped(measured.per_second), measured.cpu / 1000.0);
            let _ = write!(text, "\n  {number:<6}{name:<12}{per_second:>14}{cpu:>17.3} µs");
            if let (true, Some(p50)) = (with_latency, measured.p50) {
                let _ = write!(text, "{p50:>9.1} µs");
            }
        };
        line(&(number + 1).to_string(), name, &pair.0);
        line("", "ic_bench", &pair.1);
        let _ =
            write!(text, "    ratios: CPU {:.3}, throughput {:.3}", cpu_ratio(pair), throughput_ratio(pair));
    }
    let cpu = Spread::of(pairs.iter().map(cpu_ratio));
    let throughput = Spread::of(pairs.iter().map(throughput_ratio));
    let _ = write!(text, "\n  ic_bench to {name}, median and range: CPU {cpu}, throughput {throughput}");
    if with_latency {
        let _ = write!(text, ", p50 {}", Spread::of(pairs.iter().filter_map(p50_ratio)));
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(per_second: f64, cpu: f64, p50: Option<f64>) -> Measured {
        Measured { per_second, cpu, p50, json: json!({}) }
    }

    #[test]
    fn ratios_are_ours_to_theirs() {
        let pairs = [1.0, 2.0, 4.0].map(|more| {
            (measured(1000.0, 1500.0, Some(100.0)), measured(2000.0 * more, 500.0 / more, Some(50.0)))
        });
        let text = table("theirs", "some work", &pairs);
        assert!(
            text.contains("CPU 0.167 (0.083 to 0.333), throughput 4.000 (2.000 to 8.000), p50 0.500"),
            "{text}"
        );
        let pairs = pairs.map(|(theirs, ours)| (Measured { p50: None, ..theirs }, ours));
        assert!(!table("theirs", "some work", &pairs).contains("p50"));
    }

    /// Tells who ran.
    struct Order(std::cell::RefCell<String>);

    impl Contest for Order {
        fn title(&self) -> String {
            String::new()
        }
        fn fields(&self) -> Value {
            json!({})
        }
        fn prepare(&mut self) -> Result<(), Error> {
            Ok(())
        }
        fn theirs(&self) -> Result<Measured, Error> {
            self.0.borrow_mut().push('t');
            Ok(measured(1.0, 1.0, None))
        }
        fn ours(&self) -> Result<Measured, Error> {
            self.0.borrow_mut().push('o');
            Ok(measured(1.0, 1.0, None))
        }
    }

    #[test]
    fn who_goes_first_changes() {
        let order = Order(Default::default());
        (0..4).for_each(|number| _ = pair(&order, number).unwrap());
        assert_eq!(*order.0.borrow(), "toottoot");
    }
}
