//! From a connected socket to a session with pinned settings.

use super::config::{ChannelBinding as Binding, Config, Host};
use super::frame::{Fields, Frame};
use super::transport::{Deadline, Transport};
use super::{Error, ServerError, settings};
use bytes::BytesMut;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256};
use postgres_protocol::message::frontend;
use std::collections::BTreeMap;

/// What the server told while it let us in.
#[derive(Default)]
pub(crate) struct Welcome {
    pub(crate) process_id: i32,
    pub(crate) secret_key: i32,
    pub(crate) parameters: BTreeMap<String, String>,
}

/// Logs in over `transport`; `replication` asks for a walsender that knows the database.
pub(crate) fn log_in(
    transport: &mut Transport,
    config: &Config,
    replication: bool,
    deadline: Deadline,
) -> Result<Welcome, Error> {
    let mut parameters = vec![
        ("user", config.user.as_str()),
        ("database", config.database.as_str()),
        ("application_name", config.application_name.as_str()),
    ];
    parameters.extend(settings::PINNED);
    if replication {
        parameters.push(("replication", "database"));
    }
    let mut out = BytesMut::new();
    frontend::startup_message(parameters, &mut out).map_err(|_| Error::Login("a login text holds a zero byte"))?;
    transport.send(&mut out)?;
    authenticate(transport, config, deadline)?;
    let mut welcome = Welcome::default();
    loop {
        let frame = expect(transport, deadline)?;
        match frame.tag {
            b'S' => {
                let (name, value) = parameter(&frame)?;
                welcome.parameters.insert(name, value);
            }
            b'K' => {
                let mut fields = Fields(&frame.body);
                welcome.process_id = fields.i32()?;
                welcome.secret_key = fields.i32()?;
            }
            b'N' | b'v' => {}
            b'Z' => return Ok(welcome),
            _ => return Err(Error::Protocol("an unexpected message came after the login")),
        }
    }
}

/// Name and value of a ParameterStatus message.
pub(crate) fn parameter(frame: &Frame) -> Result<(String, String), Error> {
    let mut fields = Fields(&frame.body);
    Ok((fields.text()?.to_owned(), fields.text()?.to_owned()))
}

fn expect(transport: &mut Transport, deadline: Deadline) -> Result<Frame, Error> {
    let frame = transport.next(deadline)?.ok_or_else(|| Error::Lost(std::io::ErrorKind::TimedOut.into()))?;
    if frame.tag == b'E' { Err(Box::new(ServerError::decode(&frame.body)).into()) } else { Ok(frame) }
}

fn authenticate(transport: &mut Transport, config: &Config, deadline: Deadline) -> Result<(), Error> {
    let mut bound = false;
    loop {
        let frame = expect(transport, deadline)?;
        if matches!(frame.tag, b'N' | b'v') {
            continue;
        }
        if frame.tag != b'R' {
            return Err(Error::Protocol("an unexpected message came during the login"));
        }
        let mut fields = Fields(&frame.body);
        match fields.u32()? {
            // AuthenticationOk.
            0 if config.channel_binding == Binding::Require && !bound => {
                return Err(Error::Login("channel_binding=require, but the server lets us in without it"));
            }
            0 => return Ok(()),
            // AuthenticationCleartextPassword.
            3 => {
                if !transport.is_encrypted() && matches!(config.host, Host::Tcp(_)) {
                    return Err(Error::Login(
                        "the server wants the password in clear text over a line without encryption",
                    ));
                }
                send(transport, |out| {
                    frontend::password_message(password(config)?.as_bytes(), out).map_err(Error::Lost)
                })?;
            }
            // AuthenticationMD5Password.
            5 => {
                let salt = fields.u32()?.to_be_bytes();
                let hash = md5_hash(config.user.as_bytes(), password(config)?.as_bytes(), salt);
                send(transport, |out| frontend::password_message(hash.as_bytes(), out).map_err(Error::Lost))?;
            }
            // AuthenticationSASL.
            10 => {
                bound = scram(transport, config, fields.0, deadline)?;
            }
            _ => {
                return Err(Error::Login(
                    "the server wants a kind of login that is none of SCRAM, MD5, password, trust",
                ));
            }
        }
    }
}

/// Authenticates by SCRAM-SHA-256; returns whether the login is bound to the TLS channel.
fn scram(transport: &mut Transport, config: &Config, mechanisms: &[u8], deadline: Deadline) -> Result<bool, Error> {
    let mut offered = Vec::new();
    let mut fields = Fields(mechanisms);
    loop {
        let name = fields.text()?;
        if name.is_empty() {
            break;
        }
        offered.push(name);
    }
    let end_point = transport.end_point().filter(|_| config.channel_binding != Binding::Disable);
    let (mechanism, binding) = match end_point {
        Some(hash) if offered.contains(&SCRAM_SHA_256_PLUS) => {
            (SCRAM_SHA_256_PLUS, ChannelBinding::tls_server_end_point(hash))
        }
        _ if config.channel_binding == Binding::Require => {
            return Err(Error::Login("channel_binding=require, but this connection can't have it"));
        }
        // Saying that we could have bound the channel lets the server notice that somebody hid its offer.
        Some(_) => (SCRAM_SHA_256, ChannelBinding::unrequested()),
        None => (SCRAM_SHA_256, ChannelBinding::unsupported()),
    };
    if !offered.contains(&mechanism) {
        return Err(Error::Login("the server offers no SCRAM-SHA-256"));
    }
    let refused =
        |_| Error::Login("the server's proof is wrong: it does not know our password, or it is not the server");
    let mut scram = ScramSha256::new(password(config)?.as_bytes(), binding);
    send(transport, |out| frontend::sasl_initial_response(mechanism, scram.message(), out).map_err(Error::Lost))?;
    let challenge = sasl_step(transport, 11, deadline)?;
    scram.update(&challenge).map_err(refused)?;
    send(transport, |out| frontend::sasl_response(scram.message(), out).map_err(Error::Lost))?;
    let proof = sasl_step(transport, 12, deadline)?;
    scram.finish(&proof).map_err(refused)?;
    Ok(mechanism == SCRAM_SHA_256_PLUS)
}

fn sasl_step(transport: &mut Transport, kind: u32, deadline: Deadline) -> Result<Vec<u8>, Error> {
    let frame = expect(transport, deadline)?;
    let mut fields = Fields(&frame.body);
    if frame.tag != b'R' || fields.u32()? != kind {
        return Err(Error::Protocol("the steps of the login came in the wrong order"));
    }
    Ok(fields.0.to_vec())
}

fn password(config: &Config) -> Result<&str, Error> {
    let secret = config.password.as_ref().ok_or(Error::Login("the server wants a password, but none is given"))?;
    Ok(secret.reveal())
}

fn send(transport: &mut Transport, encode: impl FnOnce(&mut BytesMut) -> Result<(), Error>) -> Result<(), Error> {
    let mut out = BytesMut::new();
    encode(&mut out)?;
    transport.send(&mut out)
}

/// Version number as `server_version_num` writes it, from the text of `server_version`.
pub(crate) fn version_number(text: &str) -> u32 {
    let mut parts = text.split(|character: char| !character.is_ascii_digit()).map(|part| part.parse().unwrap_or(0_u32));
    let (major, minor) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    major.saturating_mul(10_000).saturating_add(minor)
}
