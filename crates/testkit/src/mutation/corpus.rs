//! What cases are made from.

use super::structure::TrailFile;
use super::{Input, InputKind, change, checkpoint};
use process::GroupKind;
use std::io;
use std::path::{Path, PathBuf};

/// Longest trail file that cases are made from: large ones cost time and hold nothing that small ones do not.
const BYTES_MAX: usize = 256 * 1024;

/// The trail crate's fixtures, checkpoint files, and the inputs that were findings once.
pub struct Corpus {
    trails: Vec<(Input, TrailFile)>,
    others: Vec<Input>,
}

impl Corpus {
    /// The folder of inputs that were findings once.
    pub fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
    }

    /// Reads everything.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn open() -> io::Result<Corpus> {
        let mut inputs = Vec::new();
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trail/tests/fixtures");
        for folder in sorted(&fixtures)?.into_iter().filter(|path| path.is_dir()) {
            for path in sorted(&folder)? {
                let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                let sequence = name.strip_prefix("aa").and_then(|digits| digits.parse().ok());
                if let Some(sequence) = sequence {
                    let origin = format!("{}/{name}", folder.file_name().unwrap_or_default().to_string_lossy());
                    inputs.push(Input { origin, kind: InputKind::Trail(sequence), bytes: std::fs::read(&path)? });
                }
            }
        }
        let mut others: Vec<Input> = sorted(&Corpus::folder())?.iter().filter_map(|path| found(path)).collect();
        for (kind, group) in [(InputKind::Extract, GroupKind::Extract), (InputKind::Replicat, GroupKind::Replicat)] {
            let origin = format!("a checkpoint file of an {group}");
            others.push(Input { origin, kind, bytes: checkpoint::sample(group) });
        }
        let mut trails = Vec::new();
        for input in inputs {
            match TrailFile::read(&input.bytes) {
                Ok(file) if input.bytes.len() <= BYTES_MAX => trails.push((input, file)),
                _ => others.push(input),
            }
        }
        Ok(Corpus { trails, others })
    }

    /// Everything as it is.
    pub fn inputs(&self) -> impl Iterator<Item = &Input> {
        self.trails.iter().map(|(input, _)| input).chain(&self.others)
    }

    #[cfg(test)]
    pub(super) fn trails(&self) -> impl Iterator<Item = (&TrailFile, &Vec<u8>)> {
        self.trails.iter().map(|(input, file)| (file, &input.bytes))
    }

    /// A case.
    pub(super) fn mutant(&self, random: &mut fastrand::Rng) -> Input {
        let is_trail = !self.trails.is_empty() && random.u8(..8) > 0;
        if !is_trail {
            let mut input = self.others[random.usize(..self.others.len())].clone();
            match input.kind {
                InputKind::Extract | InputKind::Replicat if input.bytes.len() == CHECKPOINT_BYTES => {
                    checkpoint::change(&mut input.bytes, random);
                }
                _ => change::bytes(&mut input.bytes, random),
            }
            return input;
        }
        let (input, file) = &self.trails[random.usize(..self.trails.len())];
        let mut file = file.clone();
        let donors: Vec<&TrailFile> = (0..2).map(|_| &self.trails[random.usize(..self.trails.len())].1).collect();
        file.change(&donors, random);
        let mut bytes = file.write();
        // Some have wrong frames, lengths and checksums too.
        if random.u8(..16) == 0 {
            change::bytes(&mut bytes, random);
        }
        Input { bytes, ..input.clone() }
    }
}

/// Length of a whole checkpoint file: header and slots.
const CHECKPOINT_BYTES: usize = process::CheckpointFile::BLOCK_BYTES * (process::CheckpointFile::SLOTS as usize + 1);

fn sorted(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>()?;
    paths.sort();
    Ok(paths)
}

/// An input that was a finding once; `None` for other files.
fn found(path: &Path) -> Option<Input> {
    let name = path.file_name()?.to_str()?;
    let kind = match path.extension()?.to_str()? {
        "trail" => InputKind::Trail(name.get(..9)?.parse().ok()?),
        "cpe" => InputKind::Extract,
        "cpr" => InputKind::Replicat,
        _ => return None,
    };
    Some(Input { origin: format!("corpus/{name}"), kind, bytes: std::fs::read(path).ok()? })
}
