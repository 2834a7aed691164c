//! Encrypted connections, from the parameter file to the server's own view of them.

use super::stage::{Cluster, ClusterOptions, Side, Stage};
use crate::stage::{drover, eventually};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use std::path::Path;

/// Servers let the roles of the groups in by TLS only, one by password and one by certificate.
const AUTHENTICATION: &str = "\
    local all postgres trust\nhostssl all by_password all scram-sha-256\nhostssl all by_certificate all cert\n";

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut parameters = CertificateParams::new(Vec::new()).expect("parameters");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().expect("a key")).expect("an authority")
}

/// A certificate for `names`, expired or not, and its key.
fn issue(
    by: &CertifiedIssuer<'static, KeyPair>,
    names: &[&str],
    common_name: &str,
    usage: ExtendedKeyUsagePurpose,
    is_expired: bool,
) -> (String, String) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut parameters = CertificateParams::new(names).expect("parameters");
    parameters.distinguished_name.push(DnType::CommonName, common_name);
    parameters.extended_key_usages = vec![usage];
    if is_expired {
        parameters.not_before = rcgen::date_time_ymd(2001, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2002, 1, 1);
    }
    let key = KeyPair::generate().expect("a key");
    (parameters.signed_by(&key, by).expect("a certificate").pem(), key.serialize_pem())
}

/// Asserts that our sessions at a server are there and encrypted, all of them.
fn assert_encrypted(side: &Side<'_>) {
    let counts = side.run(
        "SELECT count(*) FILTER (WHERE ssl) > 0, count(*) FILTER (WHERE NOT ssl), count(*) FILTER (WHERE backend_type = 'walsender') \
         FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) WHERE application_name = 'drover' AND usename <> 'postgres'",
    );
    assert!(counts.starts_with("t|0|"), "{counts}");
}

/// Asserts that the server has let nobody but its owner in without encryption.
fn assert_nobody_came_in_the_clear(cluster: &Cluster) -> usize {
    let log = cluster.log();
    let lines = log.lines().filter(|line| {
        line.contains("connection authorized")
            && ["user=by_password", "user=by_certificate"].iter().any(|user| line.contains(user))
    });
    let lines: Vec<&str> = lines.collect();
    lines.iter().for_each(|line| assert!(line.contains("SSL enabled"), "{line}"));
    lines.len()
}

#[test]
fn every_connection_is_encrypted_and_a_server_that_is_not_the_one_is_refused() {
    let (ours, foreign) = (authority(), authority());
    let (certificate, key) = issue(&ours, &["localhost"], "server", ExtendedKeyUsagePurpose::ServerAuth, false);
    let (client, client_key) = issue(&ours, &[], "by_certificate", ExtendedKeyUsagePurpose::ClientAuth, false);
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    for (name, text) in
        [("root.pem", ours.pem()), ("foreign.pem", foreign.pem()), ("client.pem", client), ("client.key", client_key)]
    {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    let settings = [("ssl", "on"), ("ssl_ca_file", "root.pem"), ("log_connections", "on"), ("fsync", "off")];
    let options = ClusterOptions {
        settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        files: vec![
            ("server.crt".to_owned(), certificate.clone()),
            ("server.key".to_owned(), key.clone()),
            ("root.pem".to_owned(), ours.pem()),
        ],
        authentication: Some(AUTHENTICATION.to_owned()),
        segment_megabytes: None,
    };
    let (source, target) = (Cluster::start(&options), Cluster::start(&options));
    for cluster in [&source, &target] {
        cluster.psql(
            "postgres",
            "CREATE ROLE by_password SUPERUSER LOGIN PASSWORD 'pass'; CREATE ROLE by_certificate SUPERUSER LOGIN",
        );
    }
    let stage = Stage::on(&source, &target, "CREATE TABLE t (id int PRIMARY KEY, a text)");
    let url = |side: &Side<'_>, login: &str, host: &str, parameters: &str| {
        format!("postgres://{login}@{host}:{}/{}?{parameters}", side.cluster.port(), side.database)
    };
    let root = format!("sslmode=verify-full&sslrootcert={}", file("root.pem"));
    let with_key = format!("{root}&sslcert={}&sslkey={}", file("client.pem"), file("client.key"));
    let source_url = url(&stage.source, "by_password:pass", "localhost", &root);
    let target_url = url(&stage.target, "by_certificate", "localhost", &with_key);
    stage.parameters("e1", &format!("EXTRACT e1\nSOURCEDB {source_url}\nEXTTRAIL ./dirdat/aa\nTABLE *.*;\n"));
    stage.parameters("r1", &format!("REPLICAT r1\nTARGETDB {target_url}\nMAP *.*, TARGET *.*;\n"));
    stage.source.run("INSERT INTO t VALUES (1, 'was there')");
    stage.console(&stage.set_up().replace(&stage.source.url(), &source_url).replace(&stage.target.url(), &target_url));

    let extract = stage.extract();
    let copied = drover().args(["copy", "r1", "--extract", "e1", "--home"]).arg(stage.home()).output();
    let copied = copied.expect("the binary runs");
    assert!(copied.status.success(), "{copied:?}");
    let replicat = stage.replicat();
    stage.source.run("INSERT INTO t VALUES (2, 'came later')");
    stage.wait_for_signal(&[&extract, &replicat]);
    assert_encrypted(&stage.source);
    assert_encrypted(&stage.target);
    let compared = drover().args(["compare", &source_url, &target_url]).output().expect("the binary runs");
    assert!(compared.status.success(), "{compared:?}");
    extract.stop();
    replicat.stop();
    assert_eq!(stage.target.run("SELECT * FROM t ORDER BY id"), "1|was there\n2|came later");
    for cluster in [&source, &target] {
        assert!(assert_nobody_came_in_the_clear(cluster) > 3, "{}", cluster.log());
    }

    // Who the server is must be certain before a password goes to it.
    let foreign = format!("sslmode=verify-full&sslrootcert={}", file("foreign.pem"));
    let refused = |login: &str, host: &str, parameters: &str, word: &str| {
        let url = url(&stage.source, login, host, parameters);
        let message = stage.console_refuses(&format!("DBLOGIN SOURCEDB '{url}'"));
        assert!(message.to_lowercase().contains(word), "{parameters}: {message}");
        assert!(!message.contains("pass@") && !message.contains("'pass'"), "{message}");
    };
    refused("by_password:pass", "localhost", &foreign, "certificate");
    refused("by_password:pass", "127.0.0.1", &root, "certificate");
    refused("by_password:pass", "localhost", "sslmode=disable", "pg_hba.conf");
    refused("by_certificate", "localhost", &root, "certificate");
    let (expired, expired_key) = issue(&ours, &["localhost"], "server", ExtendedKeyUsagePurpose::ServerAuth, true);
    let data = stage.source.run("SHOW data_directory");
    for (name, text) in [("server.crt", expired), ("server.key", expired_key)] {
        std::fs::write(Path::new(&data).join(name), text).expect("the server's file");
    }
    stage.source.run("SELECT pg_reload_conf()");
    eventually("the server shows its expired certificate", || {
        let compared = drover().args(["compare", &source_url, &target_url]).output().expect("the binary runs");
        (!compared.status.success()).then_some(())
    });
    refused("by_password:pass", "localhost", &root, "certificate");
}
