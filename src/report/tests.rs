use super::*;

#[test]
fn writes_the_page_for_looking_at() {
    let page = html(&sample::summary(), 1_796_120_000_000).unwrap();
    std::fs::write("/tmp/report.html", &page).unwrap();
}
