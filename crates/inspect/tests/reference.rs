//! The reference page, which the table of commands makes. With `DROVER_BLESS=1` in the environment it is rewritten.

use std::path::Path;

#[test]
fn the_reference_page_is_up_to_date() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/logdump.md");
    let reference = inspect::grammar::reference();
    if std::env::var_os("DROVER_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&page, &reference).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(written == reference, "{} is not up to date: DROVER_BLESS=1 rewrites it", page.display());
}
