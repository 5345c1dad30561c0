//! Holm's correction for a family of gates.

/// Adjusted p-values in the order given (Holm, Scandinavian Journal of Statistics 6 (1979) 65–70): a family that rejects
/// where the adjusted p ≤ α makes any false rejection with probability at most α. An absent p stays absent and doesn't
/// count in the family; a p outside [0, 1] is absent.
pub fn holm(p_values: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<(usize, f64)> = p_values
        .iter()
        .enumerate()
        .filter_map(|(i, p)| p.filter(|p| (0.0..=1.0).contains(p)).map(|p| (i, p)))
        .collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut adjusted = vec![None; p_values.len()];
    let mut largest: f64 = 0.0;
    for (place, (i, p)) in order.iter().enumerate() {
        largest = largest.max((p * (order.len() - place) as f64).min(1.0));
        if let Some(slot) = adjusted.get_mut(*i) {
            *slot = Some(largest);
        }
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjusts_in_the_order_given() {
        let adjusted = holm(&[Some(0.04), Some(0.01), None, Some(0.03)]);
        let wanted = [Some(0.06), Some(0.03), None, Some(0.06)];
        for (found, wanted) in adjusted.iter().zip(wanted) {
            assert_eq!(found.is_some(), wanted.is_some());
            assert!((found.unwrap_or(0.0) - wanted.unwrap_or(0.0)).abs() < 1e-12);
        }
    }

    #[test]
    fn edges() {
        assert_eq!(holm(&[]), Vec::<Option<f64>>::new());
        assert_eq!(holm(&[Some(0.9), Some(0.8)]), vec![Some(1.0), Some(1.0)]);
        assert_eq!(holm(&[Some(f64::NAN), Some(2.0), Some(0.02)]), vec![None, None, Some(0.02)]);
    }
}
