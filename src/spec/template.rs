pub fn render_text(t: &str, _: &super::Row) -> Result<String, String> {
    Ok(t.into())
}
