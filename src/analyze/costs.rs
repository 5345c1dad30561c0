//! Ratios of two arms' cost, candidate ÷ baseline.

use std::collections::BTreeMap;

use super::SHOWN_LEVEL;
use super::estimate::Estimate;
use super::money::to_f64;
use super::rows::Row;
use super::speed::{ArmPair, RowFilter, Speeds, join};
use super::stats::{Sums, cost_ratio, sums_ratio};
use super::summary::CostRatios;
use crate::plan::Plan;
use crate::spec::CostMetric;
use crate::spec::money::{gpu_spend, has_request_price};

pub fn ratios(plan: &Plan, speeds: &Speeds<'_>, arms: ArmPair) -> CostRatios {
    CostRatios {
        usd_per_success_ratio: ratio(plan, speeds, arms, CostMetric::UsdPerSuccess, SHOWN_LEVEL, None).ok(),
        usd_per_request_ratio: ratio(plan, speeds, arms, CostMetric::UsdPerRequest, SHOWN_LEVEL, None).ok(),
    }
}

/// The ratio of a cost metric, or why there is none.
pub fn ratio(
    plan: &Plan,
    speeds: &Speeds<'_>,
    arms: ArmPair,
    metric: CostMetric,
    level: f64,
    rows: Option<RowFilter<'_>>,
) -> Result<Estimate, String> {
    let baseline = blocks(plan, speeds, arms.baseline, metric, rows)?;
    let candidate = blocks(plan, speeds, arms.candidate, metric, rows)?;
    let joined = join(&baseline, &candidate);
    let name = super::arms::name_of(&metric);
    let resampling = speeds.resampling(arms, &name, level);
    let attempted = |arm| speeds.run.rows_of(arm).filter(|row| rows.is_none_or(|keep| keep(row))).count() as u64;
    let estimate = match metric {
        CostMetric::UsdPerSuccess => {
            cost_ratio(&joined, (attempted(arms.baseline), attempted(arms.candidate)), &resampling)
        }
        CostMetric::UsdPerRequest => sums_ratio(&joined, &resampling),
    };
    if estimate.point.is_none() && estimate.low.is_none() && estimate.high.is_none() {
        return Err("neither arm's spend gives a ratio".to_owned());
    }
    Ok(estimate)
}

/// Spend and what it bought, by block.
fn blocks(
    plan: &Plan,
    speeds: &Speeds<'_>,
    arm: usize,
    metric: CostMetric,
    filter: Option<RowFilter<'_>>,
) -> Result<BTreeMap<u32, Sums>, String> {
    let name = plan.arms.get(arm).map(|a| a.name.as_str()).unwrap_or_default();
    let deployment = plan.arms.get(arm).and_then(|a| plan.suite.deployment(&a.deployment));
    let price = deployment.and_then(|d| d.price.as_ref()).ok_or_else(|| format!("`{name}` has no price"))?;
    let per_request = has_request_price(price);
    let mut blocks: BTreeMap<u32, Sums> = BTreeMap::new();
    let bought = |row: &Row| match metric {
        CostMetric::UsdPerSuccess => row.graded.pass == Some(true),
        CostMetric::UsdPerRequest => true,
    };
    for row in speeds.run.rows_of(arm).filter(|row| filter.is_none_or(|keep| keep(row))) {
        let sums = blocks.entry(row.block).or_default();
        sums.per += f64::from(u8::from(bought(row)));
        if per_request {
            let usd = row.spend.and_then(to_f64);
            sums.amount += usd.ok_or_else(|| format!("what a request of `{name}` cost is unknown (no usage)"))?;
        }
    }
    if price.gpu_usd_per_hour.is_some() {
        if filter.is_some() {
            return Err(format!("GPU hours of `{name}` can't be told apart by task"));
        }
        for (block, us) in speeds.rates.window_us_by_block(arm) {
            let usd = gpu_spend(price, us).and_then(to_f64).unwrap_or_default();
            blocks.entry(block).or_default().amount += usd;
        }
    }
    Ok(blocks)
}
