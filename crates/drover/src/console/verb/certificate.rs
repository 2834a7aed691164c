//! Certificates of the home, and those of others that it believes.

use crate::console::parse::Command;
use crate::console::{Console, Failure};
use distribution::{CERTIFICATE_DEFAULT, Fingerprint, Identity, Peer, Peers};
use process::HomeLock;

/// Makes a certificate with its key.
pub fn add(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let (name, identity) = identity(console, command)?;
    let hosts: Vec<String> = match command.option("HOSTS") {
        Some(hosts) => hosts.split_whitespace().map(str::to_owned).collect(),
        None => vec![crate::run::host()],
    };
    let _home = HomeLock::acquire(&console.home)?;
    let fingerprint = identity.create(hosts).map_err(|error| of(&error))?;
    writeln!(console.output, "CERTIFICATE {name} added; its fingerprint is\n{fingerprint}")?;
    Ok(())
}

/// Shows a certificate's fingerprint.
pub fn info(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let (name, identity) = identity(console, command)?;
    let fingerprint = identity.fingerprint().map_err(|error| {
        let failure = of(&error);
        failure.with_next_step(format!("ADD CERTIFICATE {name}, or put {name}.crt and {name}.key into dircrd"))
    })?;
    writeln!(console.output, "CERTIFICATE {name}\nFingerprint           {fingerprint}")?;
    Ok(())
}

/// Believes a certificate.
pub fn add_peer(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let name = command.argument();
    plain(name)?;
    let text = command.required("FINGERPRINT");
    let fingerprint = Fingerprint::parse(text).ok_or_else(|| {
        Failure::new(format!("{text} is not a fingerprint"))
            .with_next_step("give the 64 hexadecimal digits that INFO CERTIFICATE shows in the other home")
    })?;
    let _home = HomeLock::acquire(&console.home)?;
    let peers = Peers::of(&console.home.dircrd());
    let mut list = peers.read().map_err(|error| unreadable(&peers, &error))?;
    if let Some(known) = list.iter().find(|peer| peer.fingerprint == fingerprint) {
        return Err(Failure::new(format!("that certificate is believed already, as that of {}", known.name))
            .with_next_step(format!("DELETE PEER {} first, to give it another name", known.name)));
    }
    list.push(Peer { fingerprint, name: name.to_owned() });
    peers.write(&list).map_err(|error| unreadable(&peers, &error))?;
    writeln!(console.output, "PEER {name} added.")?;
    Ok(())
}

/// Believes all certificates of a name no more.
pub fn delete_peer(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let name = command.argument();
    let _home = HomeLock::acquire(&console.home)?;
    let peers = Peers::of(&console.home.dircrd());
    let list = peers.read().map_err(|error| unreadable(&peers, &error))?;
    let kept: Vec<Peer> = list.iter().filter(|peer| peer.name != name).cloned().collect();
    if kept.len() == list.len() {
        return Err(Failure::new(format!("no peer is called {name}")).with_next_step("INFO PEER * shows all of them"));
    }
    peers.write(&kept).map_err(|error| unreadable(&peers, &error))?;
    writeln!(console.output, "PEER {name} deleted.")?;
    Ok(())
}

/// Shows whose certificates are believed.
pub fn info_peer(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let name = command.argument();
    let peers = Peers::of(&console.home.dircrd());
    let list = peers.read().map_err(|error| unreadable(&peers, &error))?;
    let shown: Vec<&Peer> = list.iter().filter(|peer| name == "*" || peer.name == name).collect();
    if shown.is_empty() && name != "*" {
        return Err(Failure::new(format!("no peer is called {name}")).with_next_step("INFO PEER * shows all of them"));
    }
    for peer in &shown {
        writeln!(console.output, "PEER {:<20} {}", peer.name, peer.fingerprint)?;
    }
    if shown.is_empty() {
        writeln!(console.output, "No certificate is believed for itself.")?;
    }
    Ok(())
}

fn identity(console: &Console<'_>, command: &Command) -> Result<(String, Identity), Failure> {
    let name = command.argument.as_deref().unwrap_or(CERTIFICATE_DEFAULT).to_owned();
    plain(&name)?;
    let identity = Identity::of(&console.home.dircrd(), &name);
    Ok((name, identity))
}

/// Names of certificates are names of files, and those of peers words in a line.
fn plain(name: &str) -> Result<(), Failure> {
    let is_plain = !name.is_empty()
        && name.len() <= 60
        && name.chars().all(|character| character.is_ascii_alphanumeric() || "-_".contains(character));
    match is_plain {
        true => Ok(()),
        false => Err(Failure::new(format!("{name:?} is not a name"))
            .with_next_step("use letters, digits, - and _, at most 60 of them")),
    }
}

fn of(error: &distribution::Error) -> Failure {
    process::Failure::from(error).into()
}

fn unreadable(peers: &Peers, error: &std::io::Error) -> Failure {
    Failure::new(format!("could not use {}: {error}", peers.file().display()))
}
