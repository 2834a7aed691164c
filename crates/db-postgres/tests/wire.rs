//! The client against a real server.

use crate::server::{Cluster, ClusterOptions};
use database::ErrorClass;
use db_postgres::wire::{
    Config, Connection, Error, Lsn, Parameter, ReplicationMessage, Secret, SslMode, Statement, TextRow,
};
use std::sync::OnceLock;
use std::time::Duration;

fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| Cluster::start(&ClusterOptions::default()))
}

fn database(name: &str) -> Connection {
    cluster().psql("postgres", &format!("CREATE DATABASE {name}"));
    connect(&cluster().url(name))
}

fn connect(url: &str) -> Connection {
    Connection::connect(&Config::parse(url).unwrap()).unwrap()
}

fn texts(rows: &[TextRow]) -> Vec<Vec<Option<&str>>> {
    rows.iter().map(|row| (0..row.len()).map(|index| row.text(index)).collect()).collect()
}

#[test]
fn simple_and_extended_queries_return_rows_as_text() {
    let mut connection = database("query");
    let results = connection
        .simple_query("SELECT 1 AS a, NULL AS b, '' AS c; CREATE SCHEMA s; SELECT * FROM generate_series(1, 3)")
        .unwrap();
    assert_eq!(results.len(), 3);
    assert_eq!(results[0].columns, ["a", "b", "c"]);
    assert_eq!(texts(&results[0].rows), [[Some("1"), None, Some("")]]);
    assert_eq!(results[2].affected, 3);
    let rows = connection.query("SELECT $1::int + 1, $2::text", &[Some("41"), None]).unwrap();
    assert_eq!(texts(&rows), [[Some("42"), None]]);
    assert_eq!(
        connection.version() / 10_000,
        cluster().psql("query", "SHOW server_version_num").parse::<u32>().unwrap() / 10_000
    );
}

#[test]
fn an_error_leaves_the_connection_usable_and_shows_no_value() {
    let mut connection = database("errors");
    let error = connection.simple_query("SELECT 'hunter2'::int").unwrap_err();
    assert_eq!(error.code(), Some("22P02"));
    assert!(!format!("{error:?}").contains("hunter2"));
    let error = connection.query("SELECT * FROM s.missing", &[]).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Missing);
    connection.run("CREATE TABLE public.t (a int PRIMARY KEY)").unwrap();
    connection.run("INSERT INTO public.t VALUES (1)").unwrap();
    let error = connection.run("INSERT INTO public.t VALUES (1)").unwrap_err();
    assert_eq!(error.server().unwrap().constraint(), Some("t_pkey"));
    assert_eq!(texts(&connection.query("SELECT 1", &[]).unwrap()), [[Some("1")]]);
}

#[test]
fn hostile_settings_of_role_and_database_do_not_reach_a_session() {
    let hostile = "datestyle = 'SQL, DMY'; intervalstyle = sql_standard; bytea_output = escape; extra_float_digits = -3; \
                   timezone = 'Asia/Kolkata'; search_path = public; client_encoding = latin1; statement_timeout = 300; \
                   idle_in_transaction_session_timeout = 200; idle_session_timeout = 1; lock_timeout = 1; \
                   default_transaction_read_only = on; default_transaction_isolation = serializable; \
                   standard_conforming_strings = off; quote_all_identifiers = on; array_nulls = off; row_security = on; \
                   xmlbinary = hex; wal_sender_timeout = 100; lc_monetary = 'C.UTF-8'";
    cluster().psql("postgres", "CREATE DATABASE hostile");
    cluster().psql("postgres", "CREATE ROLE victim LOGIN SUPERUSER");
    for setting in hostile.split(';') {
        cluster().psql("postgres", &format!("ALTER DATABASE hostile SET {setting}"));
        cluster().psql("postgres", &format!("ALTER ROLE victim SET {setting}"));
    }
    for replication in [false, true] {
        let config = Config::parse(&cluster().url_of("victim", "hostile")).unwrap();
        let mut connection = if replication {
            Connection::connect_for_replication(&config).unwrap()
        } else {
            Connection::connect(&config).unwrap()
        };
        let result = connection
            .simple_query(
                "SELECT timestamptz '2020-02-01 00:00+00', interval '1 day -2:00', '\\xDEAD'::bytea, 0.1::float4, \
                 0.1::float8 + 0.2, 'pg_class'::regclass, array_in('{null}', 25, -1), 1.5::numeric::money",
            )
            .unwrap();
        assert_eq!(
            texts(&result[0].rows),
            [[
                Some("2020-02-01 00:00:00+00"),
                Some("1 day -02:00:00"),
                Some("\\xdead"),
                Some("0.1"),
                Some("0.30000000000000004"),
                Some("pg_class"),
                Some("{NULL}"),
                Some("$1.50"),
            ]]
        );
        for (name, value) in db_postgres::wire::settings::PINNED {
            let shown = connection.simple_query(&format!("SELECT current_setting('{name}')")).unwrap();
            assert_eq!(shown[0].rows[0].text(0), Some(value), "{name}, replication {replication}");
        }
        // Longer than every hostile limit.
        connection.run("BEGIN; SELECT pg_sleep(0.5)").unwrap();
        connection.run("SELECT pg_sleep(0.5); COMMIT").unwrap();
    }
}

#[test]
fn a_trigger_that_changes_our_settings_stops_the_session() {
    let mut connection = database("meddler");
    let error = connection.run("SET DateStyle = 'SQL, DMY'").unwrap_err();
    assert!(error.to_string().contains("changed a setting"), "{error}");
    assert!(connection.run("SELECT 1").is_err());
}

#[test]
fn a_pipeline_is_one_transaction_and_counts_rows() {
    let mut connection = database("pipe");
    connection.run("CREATE TABLE public.t (a int PRIMARY KEY, b bytea)").unwrap();
    let insert = Statement::new("INSERT INTO public.t VALUES ($1, $2)", []);
    let update = Statement::new("UPDATE public.t SET b = NULL WHERE a < $1", []);
    let mut pipeline = connection.pipeline();
    let numbers: Vec<String> = (0..5000).map(|number| number.to_string()).collect();
    for number in &numbers {
        pipeline.execute(&insert, [Parameter::Text(number.as_bytes()), Parameter::Binary(b"\0\xff")]);
    }
    pipeline.execute(&update, [Parameter::Text(b"10")]);
    let counts = pipeline.run().unwrap();
    assert_eq!(counts.len(), 5001);
    assert!(counts[..5000].iter().all(|count| *count == 1));
    assert_eq!(counts[5000], 10);
    assert_eq!(
        cluster().psql("pipe", "SELECT count(*), count(b), min(b::text), count(DISTINCT xmin::text) FROM t"),
        "5000|4990|\\x00ff|1"
    );
}

#[test]
fn a_failing_statement_of_a_pipeline_is_named_and_takes_all_back() {
    let mut connection = database("pipefail");
    connection.run("CREATE TABLE public.t (a int PRIMARY KEY)").unwrap();
    let insert = Statement::new("INSERT INTO public.t VALUES ($1)", []);
    for _ in 0..2 {
        let mut pipeline = connection.pipeline();
        for number in ["1", "2", "3", "2", "4"] {
            pipeline.execute(&insert, [Parameter::Text(number.as_bytes())]);
        }
        let failed = pipeline.run().unwrap_err();
        assert_eq!((failed.counts.len(), failed.error.code()), (3, Some("23505")));
        assert_eq!(connection.run("SELECT * FROM public.t").unwrap(), 0);
    }
    // A statement that does not parse is named too, and may be repeated once its table exists.
    let other = Statement::new("INSERT INTO public.u VALUES ($1)", []);
    let run = |connection: &mut Connection| {
        let mut pipeline = connection.pipeline();
        pipeline.execute(&insert, [Parameter::Text(b"1")]);
        pipeline.execute(&other, [Parameter::Text(b"1")]);
        pipeline.run().map_err(|failed| (failed.counts.len(), failed.error.code().map(str::to_owned)))
    };
    assert_eq!(run(&mut connection), Err((1, Some("42P01".to_owned()))));
    connection.run("CREATE TABLE public.u (a int)").unwrap();
    assert_eq!(run(&mut connection), Ok(vec![1, 1]));
}

#[test]
fn a_server_that_answers_much_while_we_send_much_blocks_nobody() {
    let mut connection = database("chatty");
    connection
        .run(
            "CREATE FUNCTION public.shout() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN RAISE WARNING '%', repeat('x', 1000); RETURN new; END $$; \
             CREATE TABLE public.t (a text); \
             CREATE TRIGGER shout BEFORE INSERT ON public.t FOR EACH ROW EXECUTE FUNCTION public.shout()",
        )
        .unwrap();
    let insert = Statement::new("INSERT INTO public.t VALUES ($1)", []);
    let value = vec![b'v'; 1000];
    let mut pipeline = connection.pipeline();
    for _ in 0..5000 {
        pipeline.execute(&insert, [Parameter::Text(&value)]);
    }
    assert_eq!(pipeline.run().unwrap().len(), 5000);
    let notices = connection.take_notices();
    assert_eq!(notices.len(), 100);
    assert_eq!(notices[0].message(), None, "what a trigger says may hold values");
}

#[test]
fn more_statements_than_a_session_keeps_go_on_working() {
    let mut connection = database("many");
    connection.run("CREATE TABLE public.t (a int)").unwrap();
    for round in 0..2 {
        for number in 0..1200 {
            let insert = Statement::new(format!("INSERT INTO public.t VALUES ({number} + $1::int)"), []);
            let mut pipeline = connection.pipeline();
            pipeline.execute(&insert, [Parameter::Text(if round == 0 { b"0" } else { b"1" })]);
            assert_eq!(pipeline.run().unwrap(), [1]);
        }
    }
    let kept: u32 = connection.query("SELECT count(*) FROM pg_prepared_statements", &[]).unwrap()[0].parse(0).unwrap();
    assert!(kept <= 501, "{kept}");
}

#[test]
fn copies_carry_rows_out_and_in() {
    let mut connection = database("copies");
    let mut other = connect(&cluster().url("copies"));
    connection
        .run("CREATE TABLE public.a AS SELECT i, repeat('x', i % 200) AS t FROM generate_series(1, 20000) AS i; CREATE TABLE public.b (LIKE public.a)")
        .unwrap();
    let mut out = connection.copy_out("COPY public.a TO STDOUT").unwrap();
    let mut into = other.copy_in("COPY public.b FROM STDIN").unwrap();
    while let Some(chunk) = out.next_chunk().unwrap() {
        into.write(&chunk).unwrap();
    }
    drop(out);
    assert_eq!(into.finish().unwrap(), 20000);
    assert_eq!(cluster().psql("copies", "(TABLE a EXCEPT TABLE b) UNION ALL (TABLE b EXCEPT TABLE a)"), "");

    // A copy that is given up leaves nothing; one that fails says why; both leave the connection usable.
    let mut into = other.copy_in("COPY public.b FROM STDIN").unwrap();
    into.write(b"1\tgiven up\n").unwrap();
    drop(into);
    let mut into = other.copy_in("COPY public.b (i) FROM STDIN").unwrap();
    let mut result = Ok(());
    for _ in 0..100_000 {
        result = into.write(b"hunter2\n");
        if result.is_err() {
            break;
        }
    }
    let error = result.and_then(|()| into.finish().map(drop)).unwrap_err();
    assert_eq!(error.code(), Some("22P02"));
    assert!(!format!("{error:?} {error}").contains("hunter2"));
    // A refusal shows at the end at the latest; nothing of what was sent, nor what was to follow, is run.
    let mut into = other.copy_in("COPY public.missing FROM STDIN").unwrap();
    into.write(b"1\tx\n").unwrap();
    let refused = into.finish_and(Some("DELETE FROM public.b WHERE pg_sleep(0) IS NULL")).unwrap_err();
    assert_eq!(refused.code(), Some("42P01"));
    drop(other.copy_in("COPY public.missing FROM STDIN").unwrap());
    other.run("BEGIN").unwrap();
    let mut into = other.copy_in("SAVEPOINT s; COPY public.b FROM STDIN").unwrap();
    into.write(b"20001\tx\n").unwrap();
    assert_eq!(into.finish_and(Some("ROLLBACK TO s")).unwrap(), 1);
    other.run("COMMIT").unwrap();
    assert!(matches!(other.copy_out("COPY public.missing TO STDOUT"), Err(Error::Server(_))));
    assert_eq!(other.run("SELECT FROM public.b").unwrap(), 20000);
}

#[test]
fn a_statement_can_be_cancelled() {
    let mut connection = database("cancel");
    let canceller = connection.canceller();
    let process = connection.process_id().to_string();
    let mut watcher = connect(&cluster().url("cancel"));
    let waiting = std::thread::spawn(move || connection.run("SELECT pg_sleep(600)").unwrap_err());
    while watcher
        .query_one("SELECT 1 FROM pg_stat_activity WHERE pid = $1::int AND wait_event = 'PgSleep'", &[Some(&process)])
        .unwrap()
        .is_none()
    {
        std::thread::yield_now();
    }
    canceller.cancel().unwrap();
    assert_eq!(waiting.join().unwrap().class(), ErrorClass::Transient);
}

#[test]
fn a_lost_server_is_noticed_and_a_login_that_fails_says_why() {
    let mut connection = database("lost");
    let process = connection.process_id().to_string();
    let mut killer = connect(&cluster().url("lost"));
    killer.query("SELECT pg_terminate_backend($1::int, 10000)", &[Some(&process)]).unwrap();
    let error = connection.run("SELECT 1").unwrap_err();
    assert_eq!((error.class(), error.code()), (ErrorClass::ConnectionLost, Some("57P01")));
    assert_eq!(connection.run("SELECT 1").unwrap_err().class(), ErrorClass::ConnectionLost);

    let refused = |url: &str| Connection::connect(&Config::parse(url).unwrap()).err().unwrap().class();
    assert_eq!(refused(&cluster().url("nowhere")), ErrorClass::Missing);
    assert_eq!(refused(&cluster().url_of("nobody", "lost")), ErrorClass::Denied);
    assert_eq!(refused("postgres://u@127.0.0.1:1/d"), ErrorClass::ConnectionLost);
}

#[test]
fn a_replication_stream_carries_changes_and_answers_reports() {
    let mut connection = database("stream");
    connection
        .run("CREATE TABLE public.t (a int PRIMARY KEY, b text); CREATE PUBLICATION p FOR TABLE public.t")
        .unwrap();
    let config = Config::parse(&cluster().url("stream")).unwrap();
    let mut replication = Connection::connect_for_replication(&config).unwrap();
    replication.simple_query("CREATE_REPLICATION_SLOT s TEMPORARY LOGICAL pgoutput NOEXPORT_SNAPSHOT").unwrap();
    connection.run("INSERT INTO public.t SELECT i, repeat('x', 100) FROM generate_series(1, 10000) AS i").unwrap();
    let mut stream = replication
        .start_replication("START_REPLICATION SLOT s LOGICAL 0/0 (proto_version '1', publication_names 'p')")
        .unwrap();
    let (mut inserts, mut commits) = (0, 0);
    while commits == 0 {
        match stream.receive(Duration::from_secs(10)).unwrap().expect("a message in time") {
            ReplicationMessage::Data { body, .. } => match body[0] {
                b'I' => inserts += 1,
                b'C' => commits += 1,
                _ => {}
            },
            ReplicationMessage::KeepAlive { .. } => {}
        }
    }
    assert_eq!(inserts, 10000);
    let end = Lsn::parse(&cluster().psql("stream", "SELECT pg_current_wal_flush_lsn()")).unwrap();
    stream.report(end, end, true).unwrap();
    loop {
        if let ReplicationMessage::KeepAlive { end: decoded, .. } =
            stream.receive(Duration::from_secs(10)).unwrap().expect("an answer in time")
            && decoded >= end
        {
            break;
        }
    }
    // Further keep-alives may be on their way; after them there is nothing, and waiting for nothing ends.
    while let Some(message) = stream.receive(Duration::from_millis(1)).unwrap() {
        assert!(matches!(message, ReplicationMessage::KeepAlive { .. }), "{message:?}");
    }
    drop(stream);
    // The slot goes with its session, which ends as soon as the server hears of it.
    while connection.query_one("SELECT 1 FROM pg_replication_slots WHERE slot_name = 's'", &[]).unwrap().is_some() {
        std::thread::yield_now();
    }
}

mod encryption {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
    use std::path::PathBuf;

    struct World {
        cluster: Cluster,
        folder: tempfile::TempDir,
    }

    fn authority() -> CertifiedIssuer<'static, KeyPair> {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
    }

    /// A server with TLS whose certificate names `localhost`, and files for clients.
    fn world() -> &'static World {
        static WORLD: OnceLock<World> = OnceLock::new();
        WORLD.get_or_init(|| {
            let (ours, foreign) = (authority(), authority());
            let issue = |names: &[&str], common_name: &str, usage| {
                let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
                let mut parameters = CertificateParams::new(names).unwrap();
                parameters.distinguished_name.push(rcgen::DnType::CommonName, common_name);
                parameters.extended_key_usages = vec![usage];
                let key = KeyPair::generate().unwrap();
                (parameters.signed_by(&key, &ours).unwrap().pem(), key.serialize_pem())
            };
            let (certificate, key) = issue(&["localhost"], "server", ExtendedKeyUsagePurpose::ServerAuth);
            let (client, client_key) = issue(&[], "carol", ExtendedKeyUsagePurpose::ClientAuth);
            let folder = tempfile::tempdir().unwrap();
            for (name, text) in [
                ("root.pem", ours.pem()),
                ("foreign.pem", foreign.pem()),
                ("client.pem", client),
                ("client.key", client_key),
            ] {
                std::fs::write(folder.path().join(name), text).unwrap();
            }
            let cluster = Cluster::start(&ClusterOptions {
                settings: [("ssl", "on"), ("ssl_ca_file", "root.pem"), ("password_encryption", "scram-sha-256")]
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .to_vec(),
                files: vec![
                    ("server.crt".to_owned(), certificate),
                    ("server.key".to_owned(), key),
                    ("root.pem".to_owned(), ours.pem()),
                ],
                authentication: Some(
                    "local all postgres trust\nlocal all all scram-sha-256\nhostssl all carol all cert\n\
                     hostssl all md5 all md5\nhostssl all clear all password\nhostnossl all clear all password\n\
                     hostssl all all all scram-sha-256\n"
                        .to_owned(),
                ),
                segment_megabytes: None,
            });
            cluster.psql("postgres", r#"CREATE ROLE alice LOGIN PASSWORD 'p@s:s/w%o#r?d&"''\'"#);
            cluster.psql("postgres", "CREATE ROLE carol LOGIN");
            cluster.psql("postgres", "CREATE ROLE clear LOGIN PASSWORD 'x'");
            cluster.psql("postgres", "SET password_encryption = md5; CREATE ROLE md5 LOGIN PASSWORD 'x'");
            World { cluster, folder }
        })
    }

    fn config(login: &str, host: &str, parameters: &str) -> Config {
        let world = world();
        let file = |name: &str| world.folder.path().join(name).display().to_string();
        let parameters = parameters
            .replace("ROOT", &file("root.pem"))
            .replace("FOREIGN", &file("foreign.pem"))
            .replace("CERT", &file("client.pem"))
            .replace("KEY", &file("client.key"));
        Config::parse(&format!("postgres://{login}@{host}:{}/postgres?{parameters}", world.cluster.port())).unwrap()
    }

    const ALICE: &str = "alice:p%40s%3As%2Fw%25o%23r%3Fd%26%22'%5C";

    fn cipher(config: &Config) -> Option<String> {
        let mut connection = Connection::connect(config).unwrap();
        let rows =
            connection.query("SELECT cipher FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl", &[]).unwrap();
        assert_eq!(connection.is_encrypted(), !rows.is_empty());
        rows.first().and_then(|row| row.text(0)).map(str::to_owned)
    }

    #[test]
    fn every_mode_that_may_encrypt_does() {
        for parameters in [
            "sslmode=prefer",
            "sslmode=require",
            "sslmode=require&sslrootcert=ROOT",
            "sslmode=verify-ca&sslrootcert=ROOT",
            "sslmode=verify-full&sslrootcert=ROOT",
            "sslmode=require&channel_binding=require",
            "sslmode=require&channel_binding=disable",
        ] {
            assert!(cipher(&config(ALICE, "localhost", parameters)).is_some(), "{parameters}");
        }
    }

    #[test]
    fn a_certificate_that_does_not_fit_is_refused() {
        for (host, parameters, fits) in [
            ("127.0.0.1", "sslmode=verify-ca&sslrootcert=ROOT", true),
            ("127.0.0.1", "sslmode=verify-full&sslrootcert=ROOT", false),
            ("localhost", "sslmode=verify-ca&sslrootcert=FOREIGN", false),
            ("localhost", "sslmode=verify-full&sslrootcert=FOREIGN", false),
            ("localhost", "sslmode=require&sslrootcert=FOREIGN", false),
            ("localhost", "sslmode=disable", false),
        ] {
            assert_eq!(Connection::connect(&config(ALICE, host, parameters)).is_ok(), fits, "{host} {parameters}");
        }
    }

    #[test]
    fn logins_by_password_hash_and_certificate_work() {
        assert!(cipher(&config("md5:x", "localhost", "sslmode=require")).is_some());
        assert!(cipher(&config("clear:x", "localhost", "sslmode=require")).is_some());
        assert!(cipher(&config("carol", "localhost", "sslmode=require&sslcert=CERT&sslkey=KEY")).is_some());
        assert!(Connection::connect(&config("carol", "localhost", "sslmode=require")).is_err());
        let mut over_socket = config(ALICE, "localhost", "sslmode=disable");
        over_socket.host = db_postgres::wire::Host::Directory(PathBuf::from(world().cluster.directory()));
        assert!(Connection::connect(&over_socket).is_ok());
    }

    #[test]
    fn a_refused_login_never_shows_the_password() {
        for (login, parameters) in [
            ("alice:hunter2", "sslmode=require"),
            ("clear:hunter2", "sslmode=disable"),
            ("md5:hunter2", "sslmode=require&channel_binding=require"),
            ("md5:hunter2", "sslmode=require"),
        ] {
            let error = Connection::connect(&config(login, "localhost", parameters)).err().unwrap();
            assert_eq!(error.class(), ErrorClass::Denied, "{error:?}");
            assert!(!format!("{error:?} {error}").contains("hunter2"));
        }
        assert!(!world().cluster.log().contains("hunter2"));
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret");
        assert_eq!(config("u", "localhost", "sslmode=require").ssl_mode, SslMode::Require);
    }

    #[test]
    fn much_data_passes_through_tls_both_ways() {
        let mut connection = Connection::connect(&config(ALICE, "localhost", "sslmode=require")).unwrap();
        connection.run("CREATE TEMPORARY TABLE t (a text)").unwrap();
        let insert = Statement::new("INSERT INTO pg_temp.t VALUES ($1)", []);
        let value = vec![b'v'; 300_000];
        let mut pipeline = connection.pipeline();
        for _ in 0..100 {
            pipeline.execute(&insert, [Parameter::Text(&value)]);
        }
        assert_eq!(pipeline.run().unwrap().len(), 100);
        let rows = connection.query("SELECT a FROM pg_temp.t", &[]).unwrap();
        assert!(rows.iter().all(|row| row.bytes(0) == Some(value.as_slice())));
    }
}

#[test]
fn the_origin_of_a_database_is_what_the_server_says() {
    let name = "Where it lives";
    cluster().psql("postgres", &format!("CREATE DATABASE \"{name}\" TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"));
    let origin = db_postgres::open(&cluster().url("Where%20it%20lives")).unwrap().origin().unwrap();
    let identifier = cluster().psql("postgres", "SELECT system_identifier FROM pg_control_system()");
    let number = cluster().psql("postgres", &format!("SELECT oid FROM pg_database WHERE datname = '{name}'"));
    assert_eq!(origin.unique_name, format!("{}/{}", identifier.trim(), number.trim()));
    assert_eq!(origin.instance, cluster().psql("postgres", "SHOW cluster_name").trim());
    assert_eq!(origin.locale, "C");
    let url = cluster().url("postgres");
    let locale = cluster().psql("postgres", "SELECT datcollate FROM pg_database WHERE datname = 'postgres'");
    assert_eq!(db_postgres::open(&url).unwrap().origin().unwrap().locale, locale.trim());
}
