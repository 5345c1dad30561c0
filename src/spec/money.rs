//! What tokens cost, in exact decimals.

use rust_decimal::Decimal;

use super::suite::Price;

const TOKENS_PER_PRICE: u64 = 1_000_000;

/// USD of one request by its tokens. `input` is the whole prompt, `cached` the part of it that came from a cache (the
/// way in which `OpenAI` counts), `output` all generated tokens, reasoning included.
///
/// Absent where a count that has a price is unknown, and where the price names neither tokens nor requests (a GPU's
/// hours are not told by a request). Cached tokens that a server does not tell are billed as it bills them: none.
pub fn spend(price: &Price, input: Option<u64>, cached: Option<u64>, output: Option<u64>) -> Option<Decimal> {
    if !has_request_price(price) {
        return None;
    }
    let mut usd = price.usd_per_request.unwrap_or_default();
    if price.input_usd_per_mtok.is_some() || price.cached_input_usd_per_mtok.is_some() {
        let full_price = price.input_usd_per_mtok.unwrap_or_default();
        let cached_price = price.cached_input_usd_per_mtok.unwrap_or(full_price);
        let input = input?;
        let cached = cached.unwrap_or(0).min(input);
        usd = usd.checked_add(of_tokens(full_price, input - cached)?)?;
        usd = usd.checked_add(of_tokens(cached_price, cached)?)?;
    }
    if let Some(output_price) = price.output_usd_per_mtok {
        usd = usd.checked_add(of_tokens(output_price, output?)?)?;
    }
    Some(usd)
}

/// Whether requests or tokens have a price of their own (beside or instead of GPU hours).
pub fn has_request_price(price: &Price) -> bool {
    let parts =
        [price.input_usd_per_mtok, price.cached_input_usd_per_mtok, price.output_usd_per_mtok, price.usd_per_request];
    parts.iter().any(Option::is_some)
}

/// USD of an arm's own windows by the price of its GPUs. Absent where the price names none.
pub fn gpu_spend(price: &Price, window_us: u64) -> Option<Decimal> {
    let per_hour = price.gpu_usd_per_hour?.checked_mul(price.gpus)?;
    per_hour.checked_mul(Decimal::from(window_us))?.checked_div(Decimal::from(3_600_000_000_u64))
}

fn of_tokens(usd_per_mtok: Decimal, tokens: u64) -> Option<Decimal> {
    usd_per_mtok.checked_mul(Decimal::from(tokens))?.checked_div(Decimal::from(TOKENS_PER_PRICE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price() -> Price {
        Price {
            input_usd_per_mtok: Some("0.10".parse().unwrap()),
            cached_input_usd_per_mtok: Some("0.05".parse().unwrap()),
            cache_write_usd_per_mtok: None,
            output_usd_per_mtok: Some("0.40".parse().unwrap()),
            usd_per_request: None,
            gpu_usd_per_hour: None,
            gpus: Decimal::ONE,
        }
    }

    #[test]
    fn cached_tokens_are_part_of_the_prompt_and_billed_once() {
        let usd = spend(&price(), Some(1000), Some(400), Some(100)).unwrap();
        assert_eq!(usd, "0.00012".parse().unwrap()); // 600 · 0.10 + 400 · 0.05 + 100 · 0.40 = 120 per million
        let all_cached = spend(&price(), Some(1000), Some(5000), Some(0)).unwrap();
        assert_eq!(all_cached, "0.00005".parse().unwrap());
    }

    #[test]
    fn an_unknown_count_is_an_unknown_spend() {
        assert_eq!(spend(&price(), None, None, Some(100)), None);
        assert_eq!(spend(&price(), Some(100), None, None), None);
        let input_only = Price { output_usd_per_mtok: None, ..price() };
        assert!(spend(&input_only, Some(100), None, None).is_some());
    }

    #[test]
    fn gpu_hours_are_not_a_request_s_price() {
        let none = Price {
            input_usd_per_mtok: None,
            cached_input_usd_per_mtok: None,
            output_usd_per_mtok: None,
            gpu_usd_per_hour: Some("2.5".parse().unwrap()),
            gpus: Decimal::TWO,
            ..price()
        };
        assert_eq!(spend(&none, Some(1), None, Some(1)), None);
        assert_eq!(gpu_spend(&none, 3_600_000_000), Some("5.0".parse().unwrap()));
        assert_eq!(gpu_spend(&price(), 3_600_000_000), None);
    }
}
