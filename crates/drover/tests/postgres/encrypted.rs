//! An encrypted and compressed trail between two servers, with several appliers, while its master key is renewed.

use super::stage::Stage;

#[test]
fn several_appliers_follow_an_encrypted_trail_through_renewals_of_its_key() {
    let stage = Stage::bare(
        "CREATE TABLE item (id int PRIMARY KEY, name text NOT NULL); CREATE TABLE other (id int PRIMARY KEY, v text)",
    );
    let (source, target) = (stage.source.url(), stage.target.url());
    stage.parameters(
        "e1",
        &format!(
            "EXTRACT e1\nSOURCEDB {source}\nENCRYPTTRAIL AES256\nCOMPRESSTRAIL\nEXTTRAIL ./dirdat/aa\nTABLE public.*;\n"
        ),
    );
    stage.parameters(
        "r1",
        &format!("REPLICAT r1\nTARGETDB {target}\nDECRYPTTRAIL\nAPPLY_PARALLELISM 4\nMAP public.*, TARGET public.*;\n"),
    );
    stage.console("CREATE WALLET; ADD MASTERKEY");
    stage.add_groups();
    let replicat = stage.replicat();
    for round in 0..4 {
        let extract = stage.extract();
        for part in 0..5 {
            let from = round * 1000 + part * 200;
            stage.source.run(&format!(
                "INSERT INTO item SELECT n, 'a name that nobody else may read ' || repeat('x', 300) FROM generate_series({from}, {from} + 199) n;
                 INSERT INTO other SELECT n, 'v' FROM generate_series({from}, {from} + 199) n;
                 UPDATE item SET name = name || '!' WHERE id % 7 = {part}; DELETE FROM other WHERE id % 5 = {part}"
            ));
        }
        stage.wait_for_signal(&[&extract, &replicat]);
        stage.console("RENEW MASTERKEY");
        // With the file that follows the restart the new version is used.
        if round % 2 == 0 {
            extract.kill();
        } else {
            extract.stop();
        }
    }
    let extract = stage.extract();
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    stage.assert_equal();

    let mut files: Vec<_> = std::fs::read_dir(stage.home().join("dirdat"))
        .expect("dirdat")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.file_name().is_some_and(|name| name.len() == 11))
        .collect();
    files.sort();
    let mut shown = String::new();
    for file in &files {
        let bytes = std::fs::read(file).expect("a file");
        for secret in ["a name that nobody", "xxxxxxxx"] {
            assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()), "{}", file.display());
        }
        shown.push_str(&crate::stage::logdump(file));
    }
    for version in 1..=5 {
        assert!(shown.contains(&format!("master key DROVER_MASTERKEY version {version}")), "version {version}");
    }
    // A Replicat that begins anew needs all of them.
    stage.console("DELETE MASTERKEY, RANGE FROM 2 TO 3");
    let message = stage.console_refuses("PURGE WALLET");
    assert!(message.contains("version 2") || message.contains("version 3"), "{message}");
}
