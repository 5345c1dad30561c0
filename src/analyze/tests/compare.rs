use crate::analyze::summary::FlipDirection;
use crate::analyze::testkit::{Answer, Kit, comparison, failed, passing, right, suite, summary, task, wrong};
use crate::deploy::Outcome;

/// Of 200 samples: 8 lost, 3 gained.
fn flipping(arm: &str, sample: u32, _: u32) -> Answer {
    match (arm, sample) {
        ("cand", 0..8) | ("base" | "base-twin", 8..11) => wrong(),
        _ => right(),
    }
}

#[test]
fn flips_are_counted_both_ways() {
    let summary = summary(&suite(200), flipping);
    let accuracy = &comparison(&summary).quality["accuracy"];
    assert_eq!((accuracy.lost, accuracy.gained, accuracy.both_right, accuracy.both_wrong), (8, 3, 189, 0));
    assert!((accuracy.delta.point.unwrap() + 0.025).abs() < 1e-12);
    assert_eq!((accuracy.delta.method.as_str(), accuracy.delta.level), ("tango", 0.90));
    assert!((accuracy.mcnemar_p.unwrap() - 0.2266).abs() < 1e-3);
    assert!((comparison(&summary).flip_rate.as_ref().unwrap().point.unwrap() - 0.055).abs() < 1e-12);
    assert_eq!(comparison(&summary).flips_total, 11);
}

#[test]
fn flips_show_both_texts_lost_ones_first() {
    let summary = summary(&suite(200), flipping);
    let flips = &comparison(&summary).flips;
    assert_eq!(flips.len(), 11);
    assert!(flips[..8].iter().all(|f| f.direction == FlipDirection::Lost));
    let first = &flips[0];
    assert_eq!((first.baseline_text.as_str(), first.candidate_text.as_str()), ("right", "wrong"));
    assert_eq!(first.prompt, "facts 0?");
    assert_eq!(first.id.as_deref(), Some("facts-0"));
    assert_eq!((first.candidate_answer.as_deref(), first.reason.as_deref()), (Some("wrong"), Some("another answer")));
    assert_eq!(comparison(&summary).first_divergence_chars, Some(0.0));
}

#[test]
fn long_texts_and_many_flips_are_cut() {
    let long = |arm: &str, _: u32, _: u32| Answer { text: "é".repeat(5_000) + arm, ..passing(arm == "base") };
    let summary = summary(&suite(300), long);
    let comparison = comparison(&summary);
    assert_eq!((comparison.flips.len(), comparison.flips_total), (200, 300));
    assert_eq!(comparison.flips[0].candidate_text.chars().count(), 2_000);
    assert_eq!(comparison.first_divergence_chars, Some(5_000.0));
}

#[test]
fn an_answer_may_change_without_a_flip() {
    let summary = summary(&suite(100), |arm, sample, _| match (arm, sample) {
        ("cand", 0..10) => Answer { text: "right, I say".into(), tokens: 20, ..right() },
        _ => right(),
    });
    let comparison = comparison(&summary);
    assert_eq!(comparison.answers_changed.as_ref().unwrap().point, Some(0.1));
    assert_eq!(comparison.flip_rate.as_ref().unwrap().point, Some(0.0));
    assert!((comparison.token_inflation.as_ref().unwrap().point.unwrap() - 1.1).abs() < 1e-9);
    assert_eq!(comparison.first_divergence_chars, Some(5.0));
    assert!(comparison.flips.is_empty());
}

#[test]
fn pairs_with_an_unscored_side_are_left_out() {
    let summary = summary(&suite(100), |arm, sample, _| match (arm, sample) {
        ("cand", 0..5) | ("base", 3..10) => failed(Outcome::Transport),
        _ => right(),
    });
    assert_eq!(comparison(&summary).quality["accuracy"].delta.n, 90);
    assert_eq!(comparison(&summary).quality["success"].delta.n, 100);
    assert_eq!(comparison(&summary).answers_changed.as_ref().unwrap().n, 90);
}

#[test]
fn differences_stand_by_task_and_category() {
    let mut suite = suite(50);
    suite.tasks.push(task("sums", Some("maths"), 50));
    let summary = summary(&suite, |arm, sample, _| passing(arm == "base" || sample < 50 || sample % 2 == 0));
    let accuracy = &comparison(&summary).quality["accuracy"];
    assert_eq!(accuracy.by_task["facts"].lost, 0);
    assert_eq!(accuracy.by_task["sums"].lost, 25);
    assert_eq!(accuracy.by_category["maths"].delta.point, Some(-0.5));
    assert!(accuracy.by_task["sums"].by_task.is_empty());
}

#[test]
fn repeats_and_clusters_leave_tango_behind() {
    let mut repeated = suite(40);
    repeated.repeats = 3;
    let answer = |arm: &str, sample: u32, repeat: u32| passing(arm == "base" || !(sample + repeat).is_multiple_of(10));
    let accuracy = comparison(&summary(&repeated, answer)).quality["accuracy"].clone();
    assert_eq!((accuracy.delta.method.as_str(), accuracy.delta.n, accuracy.mcnemar_p), ("t", 40, None));
    let mut clustered = suite(40);
    clustered.tasks[0].cluster_by = Some("passage".into());
    let accuracy = comparison(&summary(&clustered, answer)).quality["accuracy"].clone();
    assert_eq!(accuracy.delta.method, "cluster-t");
}

#[test]
fn the_twin_gives_the_noise_floor() {
    let mut suite = suite(200);
    suite.noise_floor = true;
    let summary = summary(&suite, |arm, sample, repeat| match (arm, sample) {
        ("base-twin", 20..22) => wrong(),
        _ => flipping(arm, sample, repeat),
    });
    let comparison = comparison(&summary);
    assert_eq!(summary.arms["base-twin"].twin_of.as_deref(), Some("base"));
    let floor = comparison.noise_floor.as_ref().unwrap();
    assert_eq!((floor.twin.as_str(), floor.n, floor.flip_rate), ("base-twin", 200, Some(0.01)));
    assert_eq!(floor.answers_changed, Some(0.01));
    assert!((floor.speed["e2e_p50"].point.unwrap() - 1.0).abs() < 1e-9);
    assert!((floor.delta.as_ref().unwrap().point.unwrap() + 0.01).abs() < 1e-12);
}

#[test]
fn rows_match_by_pair_key_whatever_their_order() {
    let mut kit = Kit::play(&suite(60), flipping);
    let before = kit.summary();
    // All scores and, within its slots, all attempts in another order.
    kit.scores.reverse();
    let after = kit.summary();
    assert_eq!(comparison(&before).quality, comparison(&after).quality);
    assert_eq!(comparison(&before).flips, comparison(&after).flips);
}

#[test]
fn tokens_that_are_counted_differently_are_not_compared() {
    let summary = summary(&suite(60), |arm, _, _| Answer { usage: arm == "base", ..right() });
    assert_eq!(comparison(&summary).token_inflation, None);
}
