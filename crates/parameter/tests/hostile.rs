//! Texts that nobody would write: the parser answers, and never shows a secret.

use proptest::prelude::*;

/// Pieces of parameter files, and what breaks them.
fn piece() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "EXTRACT",
        "REPLICAT",
        "SOURCEDB",
        "TARGETDB",
        "EXTTRAIL",
        "TABLE",
        "TABLEEXCLUDE",
        "MAP",
        "TARGET",
        "MAPEXCLUDE",
        "KEYCOLS",
        "GROUPTRANSOPS",
        "DBOPTIONS",
        "CHECKFOREIGNKEYS",
        "COMMENT",
        "e1",
        "./dirdat/aa",
        "main.*",
        "\"a b\".t",
        "sqlite:x",
        "postgres://u:TIGER@h/d",
        "password=TIGER",
        "(",
        ")",
        ",",
        ";",
        "&",
        "--",
        "'",
        "\"",
        "*",
        ".",
        "\n",
        "\r\n",
        "\t",
        "\u{feff}",
        "é",
        "漢",
        "\0",
        "4294967296",
        "\u{2028}",
    ]);
    prop_oneof![
        6 => word.prop_map(str::to_owned),
        2 => Just(" ".to_owned()),
        1 => "\\PC{0,4}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_answered(pieces in prop::collection::vec(piece(), 0..40), spaced in any::<bool>()) {
        let text = pieces.join(if spaced { " " } else { "" });
        for start in ["", "EXTRACT e1\n", "REPLICAT r1\n"] {
            let text = format!("{start}{text}");
            let answers = [
                parameter::parse_extract(&text, "x.prm").err().map(|error| error.to_string()),
                parameter::parse_replicat(&text, "x.prm").err().map(|error| error.to_string()),
            ];
            for answer in answers.into_iter().flatten() {
                prop_assert!(answer.starts_with("x.prm:"), "{answer}");
            }
        }
    }

    #[test]
    fn a_password_in_a_wrong_statement_is_not_shown(before in prop::collection::vec(piece(), 0..6), after in prop::collection::vec(piece(), 0..6)) {
        let clean = |pieces: &[String]| pieces.iter().filter(|piece| !piece.contains("TIGER")).cloned().collect::<Vec<_>>().join(" ");
        let text = format!("EXTRACT e1\n{} SOURCEDB postgres://scott:TIGER@host/d {}", clean(&before), clean(&after));
        if let Err(error) = parameter::parse_extract(&text, "x.prm") {
            prop_assert!(!error.to_string().contains("TIGER"), "{error}");
        }
        prop_assert!(!parameter::mask_secrets(&text).contains("TIGER"));
    }
}
