//! The plot: throughput, errors and faults over time, as SVG.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::clock::{Micros, SECOND};
use crate::history::{Fate, History};

const LEFT: f64 = 130.0;
const WIDTH: f64 = 1_000.0;
const TOP: f64 = 40.0;
const HEIGHT: f64 = 180.0;
const LANE: f64 = 16.0;
const COLOURS: [&str; 6] = ["#b5651d", "#8e44ad", "#c0392b", "#2c7fb8", "#5d6d7e", "#d68910"];

/// Draws a run between two times.
pub fn timeline(history: &History, (begun, healed): (Micros, Micros), title: &str) -> String {
    let span = (healed.saturating_sub(begun)).max(SECOND);
    // At most so many steps as can be seen.
    let step = (span / 300).max(SECOND);
    let steps = span.div_ceil(step) as usize;
    let (mut answers, mut errors) = (vec![0_u32; steps], vec![0_u32; steps]);
    for request in history.requests.iter().filter(|request| !request.is_last && request.ended >= begun) {
        let Some(place) = answers.get_mut(((request.ended - begun) / step) as usize) else { continue };
        *place += 1;
        if matches!(&request.fate, Fate::Lost(_) | Fate::Answered { status: 500.., .. }) {
            errors[((request.ended - begun) / step) as usize] += 1;
        }
    }
    let most = answers.iter().copied().max().unwrap_or_default().max(1);
    let per_second = |count: u32| f64::from(count) * SECOND as f64 / step as f64;
    let x = |at: Micros| LEFT + WIDTH * (at.clamp(begun, healed) - begun) as f64 / span as f64;
    let y = |count: u32| TOP + HEIGHT * (1.0 - f64::from(count) / f64::from(most));

    let mut lanes = BTreeMap::<String, Vec<(Micros, Micros)>>::new();
    for fault in history.faults.iter().filter(|fault| fault.begun < healed) {
        lanes.entry(fault.name()).or_default().push((fault.begun, fault.healed));
    }
    let bottom = TOP + HEIGHT + 30.0;
    let full = bottom + LANE * lanes.len() as f64 + 20.0;
    let mut svg = String::new();
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0} {full:.0}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{}: requests a second that ended (blue), and those without an \
         answer or with 5xx (red)</text>\n",
        LEFT + WIDTH + 20.0,
        escape(title),
    );
    for (name, colour, counts) in [("all", "#2c7fb8", &answers), ("errors", "#c0392b", &errors)] {
        let points: Vec<_> = counts
            .iter()
            .enumerate()
            .map(|(at, count)| format!("{:.1},{:.1}", x(begun + at as Micros * step + step / 2), y(*count)))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.3\" points=\"{}\"><title>{name}</title></polyline>",
            points.join(" "),
        );
    }
    for (count, label) in [(0, 0.0), (most, per_second(most))] {
        let _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{label:.0}</text>",
            LEFT - 6.0,
            y(count) + 4.0
        );
    }
    let marks = (1..).map(|mark| mark * mark_every(span)).take_while(|mark| *mark <= span);
    for mark in marks {
        let at = x(begun + mark);
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{:.0}\" stroke=\"#ddd\"/>\
             <text x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{} s</text>",
            full - 20.0,
            TOP + HEIGHT + 16.0,
            mark / SECOND,
        );
    }
    for (lane, (name, spans)) in lanes.iter().enumerate() {
        let top = bottom + LANE * lane as f64;
        let _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            top + LANE - 5.0,
            escape(name)
        );
        for (from, to) in spans {
            let _ = writeln!(
                svg,
                "<rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.0}\" fill=\"{}\"/>",
                x(*from),
                (x(*to) - x(*from)).max(1.0),
                LANE - 4.0,
                COLOURS[lane % COLOURS.len()],
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// A distance of marks that leaves room for their numbers.
fn mark_every(span: Micros) -> Micros {
    let all = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800];
    all.into_iter().map(|seconds| seconds * SECOND).find(|every| span / every <= 16).unwrap_or(3_600 * SECOND)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
