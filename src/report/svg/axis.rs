//! Scales and their ticks.

/// From values to pixels, linear or logarithmic.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
    log: bool,
}

impl Axis {
    /// `None` where the values span nothing that can be drawn.
    pub fn new(values: (f64, f64), pixels: (f64, f64), log: bool) -> Option<Axis> {
        let (from, to) = values;
        let drawable = from.is_finite() && to.is_finite() && to > from && (!log || from > 0.0);
        drawable.then_some(Axis { from, to, start: pixels.0, end: pixels.1, log })
    }

    /// The pixel of a value, clamped to the axis.
    pub fn at(&self, value: f64) -> f64 {
        let (from, to, value) = if self.log {
            (self.from.ln(), self.to.ln(), value.max(self.from * 1e-3).ln())
        } else {
            (self.from, self.to, value)
        };
        let share = ((value - from) / (to - from)).clamp(0.0, 1.0);
        self.start + share * (self.end - self.start)
    }

    pub fn holds(&self, value: f64) -> bool {
        value >= self.from && value <= self.to
    }

    /// Round values along the axis, about `wanted` of them.
    pub fn ticks(&self, wanted: usize) -> Vec<f64> {
        if self.log && self.to / self.from >= 8.0 { self.decades() } else { self.steps(wanted) }
    }

    fn steps(&self, wanted: usize) -> Vec<f64> {
        let raw = (self.to - self.from) / wanted.max(1) as f64;
        let power = 10_f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].iter().map(|factor| factor * power).find(|step| *step >= raw);
        let step = step.unwrap_or(10.0 * power);
        let first = (self.from / step).ceil() as i64;
        let last = (self.to / step).floor() as i64;
        // The cap bounds what a strange range may ask for.
        (first..=last).take(50).map(|index| index as f64 * step).collect()
    }

    /// 1, 2, 5 of each decade; 1 alone where there are many.
    fn decades(&self) -> Vec<f64> {
        let first = self.from.log10().floor() as i32;
        let last = self.to.log10().ceil() as i32;
        let factors: &[f64] = if last - first > 4 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        (first..=last)
            .take(40)
            .flat_map(|exponent| factors.iter().map(move |factor| factor * 10_f64.powi(exponent)))
            .filter(|tick| self.holds(*tick))
            .collect()
    }
}

/// The least and the greatest of the finite values.
pub fn hull(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    values.into_iter().filter(|value| value.is_finite()).fold(None, |hull, value| match hull {
        None => Some((value, value)),
        Some((least, greatest)) => Some((value.min(least), value.max(greatest))),
    })
}

/// Widens a linear range by a share of itself on both sides; a single value gets room around it.
pub fn padded((least, greatest): (f64, f64), share: f64) -> (f64, f64) {
    let width = greatest - least;
    let room = if width > 0.0 { width * share } else { greatest.abs().max(1e-3) * 0.5 };
    (least - room, greatest + room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let axis = Axis::new((-0.073, 0.031), (0.0, 100.0), false).unwrap();
        let ticks: Vec<String> = axis.ticks(5).iter().map(|tick| format!("{tick:.3}")).collect();
        assert_eq!(ticks, ["-0.050", "-0.025", "0.000", "0.025"]);
        let axis = Axis::new((3.0, 900.0), (0.0, 100.0), true).unwrap();
        assert_eq!(axis.ticks(5), [5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0]);
    }

    #[test]
    fn what_spans_nothing_has_no_axis() {
        assert!(Axis::new((1.0, 1.0), (0.0, 1.0), false).is_none());
        assert!(Axis::new((0.0, 1.0), (0.0, 1.0), true).is_none());
        assert!(Axis::new((f64::NAN, 1.0), (0.0, 1.0), false).is_none());
        assert_eq!(hull([f64::NAN]), None);
    }

    #[test]
    fn values_outside_are_clamped() {
        let axis = Axis::new((0.5, 2.0), (0.0, 100.0), true).unwrap();
        assert!((axis.at(1.0) - 50.0).abs() < 1e-9);
        assert!((axis.at(-3.0) - 0.0).abs() < 1e-9);
        assert!((axis.at(9.0) - 100.0).abs() < 1e-9);
    }
}
