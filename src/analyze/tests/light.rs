use crate::analyze::Summary;
use crate::analyze::light::SpeedOfLight;
use crate::analyze::testkit::{Answer, Kit, right, suite};
use crate::spec::{CacheMode, Hardware, ModelShape, Optimization, ShapeSource, Suite};

/// A billion weights of one byte, 1000 numbers of two bytes of KV cache for each token.
fn shape() -> ModelShape {
    ModelShape {
        params: Some(1e9),
        active_params: Some(1e9),
        weight_bytes: Some(1e9),
        read_bytes: Some(1e9),
        kv_elements: Some(1000.0),
        ..ModelShape::unknown(ShapeSource::Stated)
    }
}

fn stated(bandwidth_gb_s: f64) -> Suite {
    let mut suite = suite(40);
    suite.cache = CacheMode::AsIs;
    for deployment in &mut suite.deployments {
        deployment.hardware =
            Some(Hardware { bandwidth_gb_s: Some(bandwidth_gb_s), tflops: Some(4.0), memory_gb: Some(1.1) });
        deployment.model_shape = Some(shape());
    }
    suite
}

/// 100 ms to the first token, ten tokens 10 ms apart, 100 prompt tokens of which none was cached.
fn answer() -> Answer {
    Answer { ttft_us: 100_000, prompt_tokens: 100, cached: Some(0), ..right() }
}

fn light(summary: &Summary) -> &SpeedOfLight {
    summary.arms["base"].speed_of_light.as_ref().unwrap()
}

#[test]
fn bounds_worked_by_hand() {
    let summary = Kit::play(&stated(200.0), |_, _, _| answer()).summary();
    let light = light(&summary);
    // 10⁹ bytes of weights + 2000 bytes × (100 + 10 ÷ 2) tokens, at 200 GB/s: 5.00105 ms; measured 10 ms.
    assert!((light.tpot_bound_ms.unwrap() - 5.00105).abs() < 1e-9);
    let over = light.tpot_over_bound.as_ref().unwrap();
    assert!((over.point.unwrap() - 10.0 / 5.00105).abs() < 1e-9);
    assert_eq!((over.n, over.low, over.high), (40, over.point, over.point));
    // 2 × 10⁹ × 100 operations at 4 × 10¹² a second: 50 ms, and TTFT is 100 ms.
    assert_eq!((light.prefill_bound_ms, light.prefill_measured_by.as_deref()), (Some(50.0), Some("ttft")));
    assert_eq!(light.prefill_over_bound.as_ref().unwrap().point, Some(2.0));
    // 0.1 GB is free; 110 tokens × 2000 bytes fit 454 times.
    assert_eq!((light.mean_sequence_tokens, light.sequences_that_fit), (Some(110.0), Some(454)));
    assert!(summary.validity.iter().all(|finding| finding.code != "beats_speed_of_light"));
}

#[test]
fn a_prompt_from_the_cache_is_not_processed_and_an_untold_one_has_no_bound() {
    let summary = Kit::play(&stated(200.0), |_, _, _| Answer { cached: Some(96), ..answer() }).summary();
    assert_eq!(light(&summary).prefill_bound_ms, Some(5.0), "four tokens: reading the weights takes longer");
    let untold = Kit::play(&stated(200.0), |_, _, _| Answer { cached: None, ..answer() }).summary();
    assert_eq!(light(&untold).prefill_bound_ms, None);
    assert!(light(&untold).tpot_bound_ms.is_some());
}

#[test]
fn without_usage_or_hardware_nothing_is_guessed() {
    let no_usage = Kit::play(&stated(200.0), |_, _, _| Answer { usage: false, ..answer() }).summary();
    assert_eq!((light(&no_usage).tpot_bound_ms, &light(&no_usage).tpot_over_bound), (None, &None));
    let mut bare = stated(200.0);
    bare.deployments[0].hardware = None;
    let summary = Kit::play(&bare, |_, _, _| answer()).summary();
    let light = light(&summary);
    assert_eq!((light.tpot_bound_ms, light.prefill_bound_ms, light.sequences_that_fit), (None, None, None));
    assert_eq!(light.kv_bytes_per_token, Some(2000.0));
    let none = Kit::play(&suite(40), |_, _, _| answer()).summary();
    assert!(none.arms["base"].speed_of_light.is_none());
}

#[test]
fn faster_than_light_doubts_what_is_stated_unless_drafts_explain_it() {
    let mut slow = stated(50.0);
    slow.deployments[1].optimization = Optimization::Speculative;
    let summary = Kit::play(&slow, |_, _, _| answer()).summary();
    let arms: Vec<_> =
        summary.validity.iter().filter(|f| f.code == "beats_speed_of_light").filter_map(|f| f.arm.as_deref()).collect();
    assert_eq!(arms, ["base"]);
}
