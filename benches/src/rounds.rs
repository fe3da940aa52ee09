//! Rounds: every candidate once, in turn, again and again.

use std::time::Duration;

use cpu_time::ProcessTime;

/// How many rounds a table takes.
const ROUNDS: usize = 15;

/// Something to measure: does `operations` of them and says what they took.
pub(crate) struct Candidate<'a> {
    name: &'static str,
    run: Box<dyn FnMut() -> Duration + 'a>,
    operations: u32,
}

impl<'a> Candidate<'a> {
    /// Measures the processor time of `run`, which does `operations`; what `prepare` makes is not counted.
    pub(crate) fn new<T>(
        name: &'static str,
        operations: u32,
        mut prepare: impl FnMut() -> T + 'a,
        mut run: impl FnMut(T) + 'a,
    ) -> Self {
        let run = Box::new(move || {
            let prepared = prepare();
            let begun = ProcessTime::now();
            run(prepared);
            begun.elapsed()
        });
        Self { name, run, operations }
    }
}

/// Prints a table: each candidate's time, and its ratio to the first one's in the same round.
pub(crate) fn table(title: &str, mut candidates: Vec<Candidate<'_>>) {
    println!("\n{title}");
    for candidate in &mut candidates {
        (candidate.run)();
    }
    let mut nanos = vec![Vec::new(); candidates.len()];
    for _ in 0..ROUNDS {
        for (times, candidate) in nanos.iter_mut().zip(&mut candidates) {
            times.push((candidate.run)().as_nanos() as f64 / f64::from(candidate.operations));
        }
    }
    for (times, candidate) in nanos.iter().zip(&candidates) {
        let mut ratios: Vec<_> = times.iter().zip(&nanos[0]).map(|(time, first)| time / first).collect();
        let mut times = times.clone();
        times.sort_by(f64::total_cmp);
        ratios.sort_by(f64::total_cmp);
        println!(
            "{:<52} {:>10.0} {:>8.2}   {:.2} .. {:.2}",
            format!("  {}", candidate.name),
            times[ROUNDS / 2],
            ratios[ROUNDS / 2],
            ratios[0],
            ratios[ROUNDS - 1]
        );
    }
}
