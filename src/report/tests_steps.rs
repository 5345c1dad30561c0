//! The steps of a raised load in every report.

use super::*;

const GENERATED: u64 = 1_796_120_000_000;

#[test]
fn steps_in_80_columns() {
    let text = terminal(&sample::sweep(), 80, false);
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
    }
    insta::assert_snapshot!(text.split("Steps of baseline").nth(1).unwrap());
}

#[test]
fn steps_in_markdown() {
    let text = markdown(&sample::sweep());
    insta::assert_snapshot!(text.split("### Steps of baseline").nth(1).unwrap());
}

#[test]
fn the_page_draws_the_steps_and_names_their_points() {
    let page = html(&sample::sweep(), GENERATED).unwrap();
    assert_eq!(page.matches("class=\"chart curve\"").count(), 6);
    for words in [
        "Saturation at step 80",
        "Degradation at step 60",
        "Rate of a replica",
        "$25.00",
        "ended early",
        "href=\"#steps\"",
    ] {
        assert!(page.contains(words), "{words} is missing");
    }
    assert!(!html(&sample::summary(), GENERATED).unwrap().contains("href=\"#steps\""));
}

#[test]
fn hostile_names_and_absent_figures_of_steps_stay_text() {
    let mut summary = sample::sweep();
    let sweep = summary.sweep.as_mut().unwrap();
    let mut arm = sweep.arms.remove("quantized").unwrap();
    arm.saturation = None;
    arm.saturation_absent = Some("<b>bold</b> \u{1b}[31m".to_owned());
    for step in &mut arm.steps {
        step.latency = crate::analyze::summary::Latency::default();
        step.throughput = crate::analyze::summary::Throughput::default();
        (step.error_rate, step.goodput_per_s) = (None, Some(f64::NAN));
        step.end = "skipped".to_owned();
    }
    let name = "<script>alert(1)</script>";
    sweep.arms.insert(name.to_owned(), arm);
    let figures = summary.arms.remove("quantized").unwrap();
    summary.arms.insert(name.to_owned(), figures);
    let page = html(&summary, GENERATED).unwrap();
    assert_eq!(page.matches("<script").count(), 1);
    assert!(!page.contains("<b>bold") && !page.contains("NaN"));
    let text = terminal(&summary, 80, false);
    assert!(text.contains("skipped") && !text.contains('\u{1b}') && !text.contains("NaN"), "{text}");
    assert!(!markdown(&summary).contains("NaN"));
}
