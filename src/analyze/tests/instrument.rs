use crate::analyze::summary::{GateVerdict, Summary};
use crate::analyze::testkit::{Answer, Kit, codes, comparison, gate, passing, suite};
use crate::deploy::Provenance;
use crate::drive::calibrate::{Calibration, ErrorBars, Source};
use crate::drive::{Event, Instrument, Severity};
use crate::spec::{GateKind, SloTarget, Suite};

fn plain(arm: &str, sample: u32, _: u32) -> Answer {
    Answer { ttft_us: if arm == "cand" { 30_000 } else { 50_000 }, ..passing(!sample.is_multiple_of(4)) }
}

fn calm() -> Instrument {
    Instrument {
        stall_p50_ms: Some(0.6),
        stall_p99_ms: Some(1.2),
        stall_max_ms: 3.0,
        lanes_cpu_share: Some(0.2),
        clock_step_ms: None,
        late: vec![300, 10, 0, 0, 0, 0, 0, 0, 0],
        open_sockets: Some(8),
        n: 1_000,
    }
}

/// A run of which `arm` was watched so in one slot.
fn watched(arm: &str, figures: Instrument) -> Kit {
    let mut kit = Kit::play(&suite(200), plain);
    kit.events.push(Event::Instrument { slot: 0, arm: arm.to_owned(), at_us: 1, figures });
    kit
}

fn calibrated(ttft: (f64, f64)) -> Summary {
    calibrated_at(ttft, (0.1, 0.2))
}

/// Errors (p50, p99) of first tokens and of all tokens, in milliseconds.
fn calibrated_at(ttft: (f64, f64), arrival: (f64, f64)) -> Summary {
    let mut kit = Kit::play(&suite(200), plain);
    let figures = Calibration {
        concurrency: 4,
        requests: 1_000,
        tokens: 64_000,
        ttft_error_ms: ErrorBars { p50: Some(ttft.0), p99: Some(ttft.1) },
        arrival_error_ms: ErrorBars { p50: Some(arrival.0), p99: Some(arrival.1) },
        cpu_us_per_token: Some(9.0),
        source: Source::Run,
    };
    kit.events.push(Event::Calibration { at_us: 1, figures });
    kit.summary()
}

/// Arms that a code concerns.
fn arms<'a>(summary: &'a Summary, code: &str) -> Vec<&'a str> {
    summary.validity.iter().filter(|f| f.code == code).filter_map(|f| f.arm.as_deref()).collect()
}

#[test]
fn a_client_that_keeps_up_spoils_nothing() {
    assert_eq!(codes(&watched("cand", calm()).summary()), Vec::<&str>::new());
    assert_eq!(codes(&calibrated((0.9, 4.9))), Vec::<&str>::new());
}

#[test]
fn an_error_counts_against_the_time_that_it_spoils() {
    // 5 % of 30 ms are 1.5 ms, of 50 ms 2.5 ms.
    assert_eq!(arms(&calibrated((1.4, 1.4)), "client_limited"), Vec::<&str>::new());
    assert_eq!(arms(&calibrated((1.6, 1.6)), "client_limited"), ["cand"]);
    let both = calibrated((2.6, 2.6));
    assert_eq!(arms(&both, "client_limited"), ["base", "cand"]);
    assert!(both.validity.iter().all(|f| f.severity == Severity::WithdrawsFigures));
    assert!(
        both.validity[0].message.contains("first tokens (p50) 2.6 ms late; 2.5 ms"),
        "{}",
        both.validity[0].message
    );
    assert_eq!(both.arms["cand"].latency.ttft_ms, None);
    assert!(!comparison(&both).speed.contains_key("e2e_p50"));
    // 25 % of 30 ms are 7.5 ms.
    assert_eq!(arms(&calibrated((0.5, 7.4)), "client_limited"), Vec::<&str>::new());
    assert_eq!(arms(&calibrated((0.5, 7.6)), "client_limited"), ["cand"]);
    // Of a gap of 10 ms the shares are below the floors of 1 and 5 ms.
    assert_eq!(codes(&calibrated_at((0.5, 1.0), (0.9, 4.9))), Vec::<&str>::new());
    assert_eq!(arms(&calibrated_at((0.5, 1.0), (0.9, 5.1)), "client_limited"), ["base", "cand"]);
    let late = calibrated_at((0.5, 1.0), (1.1, 4.9));
    assert!(late.validity[0].message.contains("it stamps tokens (p50) 1.1 ms late"), "{}", late.validity[0].message);
}

#[test]
fn a_busy_thread_and_a_late_one_are_told() {
    let busy = watched("cand", Instrument { lanes_cpu_share: Some(0.9), ..calm() }).summary();
    assert_eq!(arms(&busy, "client_limited"), ["cand"]);
    assert!(busy.validity[0].message.contains("busy for 90 %"), "{}", busy.validity[0].message);
    let brief = Instrument { lanes_cpu_share: Some(0.99), n: 19, late: Vec::new(), ..calm() };
    assert_eq!(codes(&watched("cand", brief).summary()), Vec::<&str>::new());
    // Tokens come every 10 ms: what counts is lateness beyond 10 ms.
    let late = |beyond_10: u64| Instrument { late: vec![300, 200, 100, beyond_10, 0, 0, 0, 0, 0], ..calm() };
    assert_eq!(codes(&watched("base", late(10)).summary()), Vec::<&str>::new());
    let stalled = watched("base", late(11)).summary();
    assert_eq!(arms(&stalled, "client_limited"), ["base"]);
    assert!(stalled.validity[0].message.contains("more than 10 ms late 11 times of 1000"), "{:?}", stalled.validity);
    // Of few looks a few late ones say nothing.
    assert_eq!(codes(&watched("base", Instrument { n: 100, ..late(9) }).summary()), Vec::<&str>::new());
}

#[test]
fn requests_that_are_sent_late_spoil_open_load() {
    // What was due before its slot began doesn't count: a few more than the thousand that a p99 takes.
    let lagging = |lag_us: u64| {
        let mut kit = Kit::play(&suite(1_100), plain);
        for attempt in kit.attempts().filter(|a| a.arm == "cand") {
            attempt.timeline.intended_us = attempt.timeline.sent_us.map(|sent| sent.saturating_sub(lag_us));
        }
        kit.summary()
    };
    assert_eq!(arms(&lagging(9_900), "client_limited"), Vec::<&str>::new());
    assert_eq!(arms(&lagging(10_100), "client_limited"), ["cand"]);
}

#[test]
fn a_wall_clock_that_was_set_concerns_the_arm_it_was_set_under() {
    let stepped = watched("cand", Instrument { clock_step_ms: Some(-5_000.0), ..calm() }).summary();
    assert_eq!(arms(&stepped, "clock_stepped"), ["cand"]);
    assert!(stepped.validity[0].message.contains("-5.0 s"), "{}", stepped.validity[0].message);
    assert!(stepped.arms["base"].latency.ttft_ms.is_some() && stepped.arms["cand"].latency.ttft_ms.is_none());
}

/// `cand` batches every sample below `until`.
fn batching(until: u32, batch: Answer) -> Summary {
    Kit::play(
        &suite(200),
        |arm, sample, repeat| {
            if arm == "cand" && sample < until { batch.clone() } else { plain(arm, sample, repeat) }
        },
    )
    .summary()
}

#[test]
fn answers_that_come_in_one_piece_are_no_stream() {
    let at_once = Answer { gap_us: 0, ..plain("cand", 1, 0) };
    let found = batching(100, at_once.clone());
    assert_eq!(arms(&found, "stream_batched"), ["cand"]);
    assert!(found.validity[0].message.contains("100 of 200 answers"), "{}", found.validity[0].message);
    let latency = &found.arms["cand"].latency;
    assert!(latency.ttft_ms.is_none() && latency.tpot_ms.is_none() && latency.itl_ms.is_none());
    assert!(latency.e2e_ms.is_some(), "when the answer was whole is known");
    assert!(found.arms["cand"].throughput.requests_per_s.is_some());
    assert_eq!(arms(&batching(99, at_once.clone()), "stream_batched"), Vec::<&str>::new());
    // Seven tokens are too few to tell.
    assert_eq!(codes(&batching(200, Answer { tokens: 7, ..at_once })), Vec::<&str>::new());
    // Ten tokens in 900 µs are one flush, in 9 ms a fast server.
    assert_eq!(arms(&batching(200, Answer { gap_us: 100, ..plain("cand", 1, 0) }), "stream_batched"), ["cand"]);
    assert_eq!(codes(&batching(200, Answer { gap_us: 1_000, ..plain("cand", 1, 0) })), Vec::<&str>::new());
}

/// Every answer of `cand` has 10 events of so many tokens each, by the server's count.
fn tokens_per_event(tokens: u64) -> Summary {
    let mut kit = Kit::play(&suite(200), plain);
    for attempt in kit.attempts().filter(|a| a.arm == "cand") {
        attempt.usage.completion_tokens = Some(10 * tokens);
        attempt.output_tokens = Some((10 * tokens, Provenance::Server));
    }
    kit.summary()
}

#[test]
fn a_few_tokens_in_each_event_are_no_batch() {
    let speculative = tokens_per_event(4);
    assert_eq!(codes(&speculative), ["first_chunk_unknown"]);
    let latency = &speculative.arms["cand"].latency;
    assert!(latency.itl_ms.is_none() && latency.tpot_ms.is_some() && latency.ttft_ms.is_some());
    assert_eq!(arms(&tokens_per_event(9), "stream_batched"), ["cand"]);
}

fn asking(samples: usize, metric: &str, slo: &str) -> Suite {
    let mut suite = suite(samples);
    let speed = GateKind::Speed {
        metric: metric.parse().unwrap(),
        ratio_at_most: Some(0.9),
        ratio_at_least: None,
        confidence: 0.95,
    };
    suite.gates = vec![gate(speed), gate(GateKind::Slo { confidence: None })];
    suite.slo = vec![SloTarget { metric: slo.parse().unwrap(), at_most: 100.0 }];
    suite
}

#[test]
fn a_percentile_that_the_sample_does_not_carry_is_named_with_what_would() {
    let few = Kit::play(&asking(400, "ttft_p99", "e2e_p95"), plain).summary();
    assert_eq!(codes(&few), ["too_few_samples"]);
    let message = &few.validity[0].message;
    assert!(message.contains("`ttft_p99`, which takes 1000 values"), "{message}");
    assert!(message.contains("400 of `base`, 400 of `cand`"), "{message}");
    assert_eq!(few.gates[0].verdict, GateVerdict::NotEvaluable);
    // An SLO is the candidate's alone, and of an arm without a comparison its own.
    let mut asked = asking(199, "ttft_p50", "e2e_p95");
    let slo = Kit::play(&asked, plain).summary();
    assert_eq!(codes(&slo), ["too_few_samples"]);
    let message = &slo.validity[0].message;
    assert!(message.contains("takes 200 values, and there are 199 of `cand`;"), "{message}");
    asked.comparisons.clear();
    let alone = Kit::play(&asked, plain).summary();
    assert!(alone.validity[0].message.contains("199 of `base`, 199 of `cand`"), "{:?}", alone.validity);
    assert_eq!(codes(&Kit::play(&asking(200, "ttft_p50", "e2e_p95"), plain).summary()), Vec::<&str>::new());
}

#[test]
fn what_a_watch_recorded_reads_back_and_absent_parts_stay_absent() {
    let event = Event::Instrument { slot: 3, arm: "cand".to_owned(), at_us: 9, figures: calm() };
    let line = serde_json::to_string(&event).unwrap();
    assert!(line.starts_with("{\"t\":\"instrument\",\"slot\":3") && !line.contains("clock_step_ms"), "{line}");
    assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event);
}

#[test]
fn the_summary_holds_each_arms_worst_slot_and_the_calibration() {
    let mut kit = watched("cand", calm());
    let worse = Instrument { stall_max_ms: 7.0, lanes_cpu_share: Some(0.1), n: 50, ..calm() };
    kit.events.push(Event::Instrument { slot: 1, arm: "cand".to_owned(), at_us: 1, figures: worse });
    let environment = &kit.summary().environment["instrument"];
    let arm = &environment["arms"]["cand"];
    assert_eq!((&arm["slots"], &arm["looks"], &arm["stall_max_ms"]), (&2.into(), &1_050.into(), &7.0.into()));
    assert_eq!(arm["lanes_cpu_share"], 0.2);
    assert_eq!((&arm["late"][0], &arm["late"][1]), (&600.into(), &20.into()));
    assert!(environment.get("calibration").is_none());
    let calibration = calibrated((0.1, 0.2)).environment["instrument"]["calibration"].clone();
    assert_eq!((&calibration["source"], &calibration["ttft_error_ms"]["p99"]), (&"run".into(), &0.2.into()));
    assert!(!Kit::play(&suite(200), plain).summary().environment.contains_key("instrument"));
}
