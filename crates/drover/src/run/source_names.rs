//! How the source of a trail compares names, which MAP statements depend on.

use change::CaseRule;
use process::{Code, Failure, Shutdown};
use std::sync::Arc;
use std::time::Duration;
use trail::storage::Storage;
use trail::{Entry, Reader, Record, Start, TrailName};

/// The rule for names without quotes, and the schema of names without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceNames {
    /// How names are compared.
    pub case: CaseRule,
    /// Where a table is that is named without a schema.
    pub schema: &'static str,
}

impl SourceNames {
    /// The rules of a product, by the name that it has in the headers of trail files.
    fn of_product(product: &str) -> Option<SourceNames> {
        match product {
            "SQLite" => Some(SourceNames { case: CaseRule::Insensitive, schema: "main" }),
            "PostgreSQL" => Some(SourceNames { case: CaseRule::FoldToLower, schema: "public" }),
            _ => None,
        }
    }

    fn of_header(product: &str, file: &str) -> Result<SourceNames, Box<Failure>> {
        SourceNames::of_product(product).ok_or_else(|| {
            let what = format!("trail file {file} comes from {product}, whose names this version does not know");
            Box::new(Failure::new(Code::TrailForeign, what))
        })
    }

    /// Asks the first file of the trail; `None` when there is none.
    ///
    /// # Errors
    /// As [`of_trail`](SourceNames::of_trail).
    pub fn of_trail_now(storage: Arc<dyn Storage>, trail: TrailName) -> Result<Option<SourceNames>, Box<Failure>> {
        let failed = |error: trail::Error| Failure::from(&error);
        let mut reader = Reader::open(storage, trail, Start::Beginning).map_err(failed)?;
        while let Some(entry) = reader.next().map_err(failed)? {
            if let Record::Header(header) = entry.record {
                return SourceNames::of_header(&header.source.product, &header.file_name).map(Some);
            }
        }
        Ok(None)
    }

    /// Asks the first file of the trail, and waits for it when there is none yet. `None` when told to stop before.
    ///
    /// # Errors
    /// When the file can't be read, or comes from a product that is not known.
    pub fn of_trail(
        storage: Arc<dyn Storage>,
        trail: TrailName,
        wait: Duration,
        shutdown: &Shutdown,
    ) -> Result<Option<SourceNames>, Box<Failure>> {
        let failed = |error: trail::Error| Failure::from(&error);
        let mut reader = Reader::open(storage, trail, Start::Beginning).map_err(failed)?;
        while !shutdown.is_requested() {
            match reader.next().map_err(failed)? {
                None => _ = reader.wait(wait).map_err(failed)?,
                Some(Entry { record: Record::Header(header), .. }) => {
                    return SourceNames::of_header(&header.source.product, &header.file_name).map(Some);
                }
                Some(_) => {}
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_a_product_are_those_that_its_plug_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("shop.db");
        std::fs::write(&path, "").expect("a file");
        let database = db_sqlite::open(&format!("sqlite:{}", path.display())).expect("a database");
        let product = database.identity().expect("an identity").product;
        let names = SourceNames::of_product(&product).expect("a known product");
        assert_eq!((names.case, names.schema.to_owned()), (database.case_rule(), database.default_schema()));
        assert_eq!(SourceNames::of_product("Sybase"), None);
    }
}
