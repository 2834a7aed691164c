//! Where a server is and how to log in there.

use database::{Error, ErrorClass};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A password. It can be used but not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps `text` from being printed.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The password itself, for authentication only.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret")
    }
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// By name or address.
    Tcp(String),
    /// By the socket in this directory.
    Directory(PathBuf),
}

/// Whether and how a TCP connection is encrypted; the names are libpq's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SslMode {
    /// Never.
    Disable,
    /// If the server can.
    Prefer,
    /// Always; the certificate is checked only when root certificates are given.
    Require,
    /// Always, with a certificate that a root certificate vouches for.
    VerifyCa,
    /// As [`VerifyCa`](SslMode::VerifyCa), and the certificate names the host.
    VerifyFull,
}

/// Whether SCRAM authentication is bound to the TLS channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelBinding {
    /// No.
    Disable,
    /// If both sides can.
    Prefer,
    /// The login is refused without it.
    Require,
}

/// Where a server is and how to log in there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// How the server is reached.
    pub host: Host,
    /// TCP port, or the number in the socket's name.
    pub port: u16,
    /// Role.
    pub user: String,
    /// Password, if one is needed.
    pub password: Option<Secret>,
    /// Database.
    pub database: String,
    /// Encryption.
    pub ssl_mode: SslMode,
    /// PEM file with the certificates that vouch for servers.
    pub ssl_root_certificate: Option<PathBuf>,
    /// PEM file with our own certificate and those between it and its root.
    pub ssl_certificate: Option<PathBuf>,
    /// PEM file with the key of our own certificate.
    pub ssl_key: Option<PathBuf>,
    /// Channel binding of SCRAM.
    pub channel_binding: ChannelBinding,
    /// Shown in `pg_stat_activity`.
    pub application_name: String,
    /// Longest time until the login is done.
    pub connect_timeout: Duration,
    /// Silence after which TCP asks whether the other side still lives.
    pub keepalive_idle: Duration,
    /// Longest time that sent data may stay without an answer before TCP gives the connection up.
    pub tcp_user_timeout: Duration,
}

impl Config {
    /// Reads `postgres://user:password@host:port/database?parameter=value&…`.
    ///
    /// Every part may be percent-encoded. Parameters: `host` (a name, or the directory of a Unix socket), `port`, `user`,
    /// `password`, `dbname`, `sslmode`, `sslrootcert`, `sslcert`, `sslkey`, `channel_binding`, `application_name`,
    /// `connect_timeout` (seconds), `keepalives_idle` (seconds), `tcp_user_timeout` (milliseconds).
    ///
    /// # Errors
    /// [`ErrorClass::Permanent`] with the name of the part that is wrong, never with the text of the URL.
    pub fn parse(url: &str) -> Result<Config, Error> {
        let rest = url
            .strip_prefix("postgres://")
            .or_else(|| url.strip_prefix("postgresql://"))
            .ok_or_else(|| refuse("a connection URL does not start with postgres://"))?;
        // Two URLs run together by a quote that is not closed would put the second one's password where names are shown.
        if rest.contains("://") || rest.contains(|character: char| character.is_whitespace() || character.is_control())
        {
            return Err(refuse("a connection URL holds a blank or :// that is not percent-encoded"));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        // A slash inside a socket directory is percent-encoded, so the first one ends the host.
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = login.split_once(':').map_or((login, None), |(user, password)| (user, Some(password)));
        let mut draft = Draft {
            user: decode("user", user)?,
            password: password.map(|password| decode("password", password)).transpose()?,
            database: decode("database", database)?,
            ..Draft::default()
        };
        draft.read_host(host)?;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(|| refuse("a URL parameter has no value"))?;
            draft.set(&decode("parameter", name)?, decode(name, value)?)?;
        }
        draft.finish()
    }

    /// The address of the server without login, as messages show it.
    pub fn address(&self) -> String {
        match &self.host {
            Host::Tcp(host) if host.contains(':') => format!("[{host}]:{}", self.port),
            Host::Tcp(host) => format!("{host}:{}", self.port),
            Host::Directory(directory) => format!("{}/.s.PGSQL.{}", directory.display(), self.port),
        }
    }
}

/// Writes the URL without password and parameters.
impl fmt::Display for Config {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "postgres://{}@{}/{}", self.user, self.address(), self.database)
    }
}

#[derive(Default)]
struct Draft {
    host: Option<String>,
    port: Option<u16>,
    user: String,
    password: Option<String>,
    database: String,
    ssl_mode: Option<SslMode>,
    ssl_root_certificate: Option<PathBuf>,
    ssl_certificate: Option<PathBuf>,
    ssl_key: Option<PathBuf>,
    channel_binding: Option<ChannelBinding>,
    application_name: Option<String>,
    connect_timeout: Option<Duration>,
    keepalive_idle: Option<Duration>,
    tcp_user_timeout: Option<Duration>,
}

impl Draft {
    fn read_host(&mut self, text: &str) -> Result<(), Error> {
        let (host, port) = match text.strip_prefix('[') {
            Some(bracketed) => {
                let (host, after) = bracketed.split_once(']').ok_or_else(|| refuse("an IPv6 address lacks its ]"))?;
                (host, after.strip_prefix(':'))
            }
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        if !host.is_empty() {
            self.host = Some(decode("host", host)?);
        }
        if let Some(port) = port {
            self.port = Some(number("port", port)?);
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), Error> {
        match name {
            "host" => self.host = Some(value),
            "port" => self.port = Some(number(name, &value)?),
            "user" => self.user = value,
            "password" => self.password = Some(value),
            "dbname" => self.database = value,
            "sslmode" => {
                self.ssl_mode = Some(match value.as_str() {
                    "disable" => SslMode::Disable,
                    "prefer" => SslMode::Prefer,
                    "require" => SslMode::Require,
                    "verify-ca" => SslMode::VerifyCa,
                    "verify-full" => SslMode::VerifyFull,
                    _ => return Err(refuse("sslmode is none of disable, prefer, require, verify-ca, verify-full")),
                });
            }
            "sslrootcert" => self.ssl_root_certificate = Some(value.into()),
            "sslcert" => self.ssl_certificate = Some(value.into()),
            "sslkey" => self.ssl_key = Some(value.into()),
            "channel_binding" => {
                self.channel_binding = Some(match value.as_str() {
                    "disable" => ChannelBinding::Disable,
                    "prefer" => ChannelBinding::Prefer,
                    "require" => ChannelBinding::Require,
                    _ => return Err(refuse("channel_binding is none of disable, prefer, require")),
                });
            }
            "application_name" => self.application_name = Some(value),
            "connect_timeout" => self.connect_timeout = Some(Duration::from_secs(number(name, &value)?)),
            "keepalives_idle" => self.keepalive_idle = Some(Duration::from_secs(number(name, &value)?)),
            "tcp_user_timeout" => self.tcp_user_timeout = Some(Duration::from_millis(number(name, &value)?)),
            _ => return Err(refuse(format!("the connection URL has a parameter {name:?} that is not known"))),
        }
        Ok(())
    }

    fn finish(self) -> Result<Config, Error> {
        let host = self.host.ok_or_else(|| refuse("the connection URL names no host"))?;
        let host = if host.starts_with('/') { Host::Directory(host.into()) } else { Host::Tcp(host) };
        if self.user.is_empty() {
            return Err(refuse("the connection URL names no user"));
        }
        let texts = [Some(&self.user), Some(&self.database), self.application_name.as_ref(), self.password.as_ref()];
        if texts.into_iter().flatten().any(|text| text.contains('\0')) {
            return Err(refuse("the connection URL holds a zero byte"));
        }
        let local = matches!(host, Host::Directory(_));
        if local && self.ssl_mode.is_some_and(|mode| mode >= SslMode::Require) {
            return Err(refuse("sslmode asks for encryption, but a Unix socket has none"));
        }
        if self.ssl_certificate.is_some() != self.ssl_key.is_some() {
            return Err(refuse("sslcert and sslkey belong together, but one is missing"));
        }
        let ssl_mode = self.ssl_mode.unwrap_or(if local { SslMode::Disable } else { SslMode::Prefer });
        if ssl_mode >= SslMode::VerifyCa && self.ssl_root_certificate.is_none() {
            return Err(refuse("sslmode asks for a checked certificate, but sslrootcert is missing"));
        }
        Ok(Config {
            host,
            port: self.port.unwrap_or(5432),
            database: if self.database.is_empty() { self.user.clone() } else { self.database },
            user: self.user,
            password: self.password.map(Secret),
            ssl_mode,
            ssl_root_certificate: self.ssl_root_certificate,
            ssl_certificate: self.ssl_certificate,
            ssl_key: self.ssl_key,
            channel_binding: self.channel_binding.unwrap_or(ChannelBinding::Prefer),
            application_name: self.application_name.unwrap_or_else(|| "drover".to_owned()),
            connect_timeout: self.connect_timeout.unwrap_or(Duration::from_secs(30)),
            keepalive_idle: self.keepalive_idle.unwrap_or(Duration::from_secs(30)),
            tcp_user_timeout: self.tcp_user_timeout.unwrap_or(Duration::from_secs(60)),
        })
    }
}

fn refuse(what: impl Into<String>) -> Error {
    Error::new(ErrorClass::Permanent, what).with_next_step(
        "write postgres://user:password@host:port/database?sslmode=verify-full&sslrootcert=FILE, with special characters \
         percent-encoded",
    )
}

fn number<N: std::str::FromStr>(name: &str, text: &str) -> Result<N, Error> {
    text.parse().map_err(|_| refuse(format!("{name} in the connection URL is not a number in range")))
}

fn decode(part: &str, text: &str) -> Result<String, Error> {
    let bad = || refuse(format!("{part} in the connection URL is not proper percent-encoded UTF-8"));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else { return Err(bad()) };
        bytes.push(u8::try_from(high << 4 | low).map_err(|_| bad())?);
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_of_a_url_are_read() {
        let config = Config::parse(
            "postgres://bob:p%40s%3As%2Fw%25o%23r%3Fd%26%22'%5C@db.example:6000/shop?sslmode=verify-full&sslrootcert=/r.pem\
             &sslcert=/c.pem&sslkey=/k.pem&application_name=a%20b&connect_timeout=7&channel_binding=require",
        )
        .unwrap();
        assert_eq!(config.host, Host::Tcp("db.example".to_owned()));
        assert_eq!((config.port, config.user.as_str(), config.database.as_str()), (6000, "bob", "shop"));
        assert_eq!(config.password.as_ref().unwrap().reveal(), "p@s:s/w%o#r?d&\"'\\");
        assert_eq!(config.ssl_mode, SslMode::VerifyFull);
        assert_eq!(config.application_name, "a b");
        assert_eq!(config.connect_timeout, Duration::from_secs(7));
        assert_eq!(config.to_string(), "postgres://bob@db.example:6000/shop");
    }

    #[test]
    fn a_socket_directory_may_stand_in_either_place() {
        for url in ["postgres://u@/d?host=/run/pg", "postgresql://u@%2Frun%2Fpg/d"] {
            let config = Config::parse(url).unwrap();
            assert_eq!(config.host, Host::Directory("/run/pg".into()), "{url}");
            assert_eq!(config.ssl_mode, SslMode::Disable);
            assert_eq!(config.database, "d");
        }
        assert_eq!(Config::parse("postgres://u@[::1]:5/").unwrap().address(), "[::1]:5");
    }

    #[test]
    fn no_text_of_ours_shows_the_password() {
        let config = Config::parse("postgres://u:hunter2@h/d").unwrap();
        assert!(!format!("{config:?} {config}").contains("hunter2"));
        for url in ["postgres://u:hunter2%zz@h/d", "postgres://u:hunter2@h:port/d", "postgres://u:hunter2@h/d?hunter=2"]
        {
            let error = Config::parse(url).unwrap_err();
            assert!(!format!("{error:?} {error}").contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn an_option_without_effect_is_refused() {
        for url in [
            "postgres://u@/d?host=/run/pg&sslmode=require",
            "postgres://u@h/d?sslmode=verify-full",
            "postgres://u@h/d?sslcert=/c.pem",
            "postgres://u@h/d?target_session_attrs=any",
            "postgres://h/d",
            "postgres://u@/d",
        ] {
            assert!(Config::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn urls_that_run_into_other_text_are_refused_without_showing_it() {
        for url in [
            "postgres://u@h/d postgres://u:hunter2@h/d",
            "postgres://u@h/d\nx",
            "postgres://u@h/dpostgres://u:hunter2@h/d",
        ] {
            let error = Config::parse(url).unwrap_err();
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
        assert_eq!(Config::parse("postgres://u@h/a%20b%3A//").unwrap().database, "a b://");
    }
}
