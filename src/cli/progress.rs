//! Progress on stderr: a bar for each arm on a terminal, plain lines elsewhere. A consumer of the event stream.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::args::ProgressMode;
use crate::drive::{Attempt, Event};
use crate::plan::{Phase, Plan};

/// Between two plain lines of one run.
const PLAIN_EVERY_US: u64 = 10_000_000;

#[derive(Default)]
struct Count {
    planned: u64,
    done: u64,
    /// Done in this session: the rate is of these.
    session_done: u64,
    errors: u64,
    passed: u64,
    scored: u64,
    started_us: Option<u64>,
    /// Time inside the arm's own slots, so that other arms' turns do not slow its rate.
    busy_us: u64,
}

enum Show {
    Bars { _all: MultiProgress, bars: BTreeMap<String, ProgressBar> },
    Plain { last_us: u64 },
    None,
}

pub struct Progress {
    counts: BTreeMap<String, Count>,
    order: Vec<String>,
    show: Show,
}

impl Progress {
    pub fn new(mode: ProgressMode, plan: &Plan, arms: &[usize], already_done: &BTreeMap<String, u64>) -> Progress {
        let planned: u64 = plan.blocks.iter().map(crate::plan::Block::requests).sum();
        let order: Vec<String> =
            arms.iter().filter_map(|&index| plan.arms.get(index)).map(|arm| arm.name.clone()).collect();
        let count = |name: &String| {
            let done = already_done.get(name).copied().unwrap_or(0);
            (name.clone(), Count { planned, done, ..Count::default() })
        };
        let counts = order.iter().map(count).collect();
        let show = match mode {
            ProgressMode::None => Show::None,
            ProgressMode::Auto if std::io::stderr().is_terminal() => bars(&order, planned),
            ProgressMode::Auto | ProgressMode::Plain => Show::Plain { last_us: 0 },
        };
        Progress { counts, order, show }
    }

    pub fn on_event(&mut self, event: &Event) {
        match event {
            Event::Attempt(attempt) => self.on_attempt(attempt),
            Event::SlotStarted { arm, at_us, phase, .. } => {
                if let Some(count) = self.counts.get_mut(arm) {
                    count.started_us = Some(*at_us);
                }
                self.set_phase(arm, *phase);
            }
            Event::SlotEnded { arm, at_us, phase, .. } => {
                if let Some(count) = self.counts.get_mut(arm)
                    && let Some(started) = count.started_us.take()
                    && *phase == Phase::Measured
                {
                    count.busy_us += at_us.saturating_sub(started);
                }
                self.plain(*at_us, false);
            }
            Event::BlockEnded { at_us, .. } => self.plain(*at_us, false),
            Event::Ended { at_us, .. } => self.plain(*at_us, true),
            _ => {}
        }
    }

    /// Verdicts that grading in the drained gap has brought.
    pub fn on_score(&mut self, arm: &str, pass: Option<bool>) {
        let Some(count) = self.counts.get_mut(arm) else { return };
        count.scored += u64::from(pass.is_some());
        count.passed += u64::from(pass == Some(true));
        self.redraw(arm, None);
    }

    pub fn finish(&mut self) {
        if let Show::Bars { bars, .. } = &self.show {
            bars.values().for_each(ProgressBar::abandon);
        }
    }

    fn on_attempt(&mut self, attempt: &Attempt) {
        if attempt.phase == Phase::Warmup || !attempt.last {
            return;
        }
        let Some(count) = self.counts.get_mut(&attempt.arm) else { return };
        count.done += 1;
        count.session_done += 1;
        count.errors += u64::from(attempt.outcome.is_error());
        let now_us = attempt.timeline.eof_us.unwrap_or(attempt.timeline.dispatched_us);
        self.redraw(&attempt.arm, Some(now_us));
        self.plain(now_us, false);
    }

    fn redraw(&self, arm: &str, now_us: Option<u64>) {
        let (Show::Bars { bars, .. }, Some(count)) = (&self.show, self.counts.get(arm)) else { return };
        let Some(bar) = bars.get(arm) else { return };
        bar.set_position(count.done);
        bar.set_message(describe(count, now_us));
    }

    fn set_phase(&self, arm: &str, phase: Phase) {
        let Show::Bars { bars, .. } = &self.show else { return };
        if let (Phase::Warmup, Some(bar)) = (phase, bars.get(arm)) {
            bar.set_message("warm-up");
        }
    }

    fn plain(&mut self, now_us: u64, always: bool) {
        let Show::Plain { last_us } = &mut self.show else { return };
        if !always && now_us < *last_us + PLAIN_EVERY_US {
            return;
        }
        *last_us = now_us;
        for name in &self.order {
            if let Some(count) = self.counts.get(name) {
                let (done, planned) = (count.done, count.planned);
                say!("[{:>5} s] {name}: {done}/{planned}  {}", now_us / 1_000_000, describe(count, Some(now_us)));
            }
        }
    }
}

fn bars(order: &[String], planned: u64) -> Show {
    let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(8));
    let width = order.iter().map(String::len).max().unwrap_or(0).min(20);
    let template = format!("{{prefix:{width}}} {{bar:20}} {{pos:>5}}/{{len}} {{msg}}");
    let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = |name: &String| {
        let bar = all.add(ProgressBar::new(planned)).with_style(style.clone());
        bar.set_prefix(name.clone());
        bar.tick();
        (name.clone(), bar)
    };
    let bars = order.iter().map(bar).collect();
    Show::Bars { _all: all, bars }
}

/// `12.3/s  err 0  acc 81.2 %  eta 14 s`; what is not known yet is left out.
fn describe(count: &Count, now_us: Option<u64>) -> String {
    let in_slot = match (count.started_us, now_us) {
        (Some(started), Some(now)) => now.saturating_sub(started),
        _ => 0,
    };
    let busy_s = (count.busy_us + in_slot) as f64 / 1e6;
    let mut parts = Vec::new();
    if busy_s > 0.0 && count.session_done > 0 {
        let rate = count.session_done as f64 / busy_s;
        parts.push(format!("{rate:.1}/s"));
        let left_s = (count.planned.saturating_sub(count.done)) as f64 / rate;
        if count.done < count.planned {
            parts.push(format!("{left_s:.0} s left"));
        }
    }
    parts.push(format!("err {}", count.errors));
    if count.scored > 0 {
        parts.push(format!("acc {:.1} %", 100.0 * count.passed as f64 / count.scored as f64));
    }
    parts.join("  ")
}
