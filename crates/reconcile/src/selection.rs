//! Which tables are compared with which, as the operator asked.

use crate::Error;
use change::{CaseRule, TableName};
use parameter::{Diagnostics, MapPlan, MapRules, TablePlan, TableRules, parse_extract, parse_replicat};

/// What the operator wrote. Names are written as in parameter files: `table` or `schema.table`, with `*` for any run of
/// characters and double quotes around what is literal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelectionRequest {
    /// Source tables to compare; all when there are none.
    pub tables: Vec<String>,
    /// Source tables to leave out.
    pub excluded: Vec<String>,
    /// Source tables and the target tables that they are compared with. Without any, tables of the same name are compared.
    pub maps: Vec<(String, String)>,
}

/// A [`SelectionRequest`] that has been understood.
#[derive(Clone, Debug)]
pub struct Selection {
    tables: Vec<(String, TableRules)>,
    excluded: Vec<(String, TableRules)>,
    maps: Vec<(String, MapRules)>,
    forward: MapRules,
    backward: MapRules,
}

/// The pattern that every table matches.
const ALL: &str = "*.*";

impl Selection {
    /// Reads what the operator wrote.
    ///
    /// # Errors
    /// [`Error::Refused`] with the option and its text.
    pub fn parse(request: &SelectionRequest) -> Result<Selection, Error> {
        let patterns = |option: &str, list: &[String]| -> Result<Vec<(String, TableRules)>, Error> {
            list.iter()
                .map(|text| {
                    Ok((format!("{option} {text}"), table_rules(text).map_err(|cause| wrong(option, text, &cause))?))
                })
                .collect()
        };
        let swapped = |(from, to): &(String, String)| (to.clone(), from.clone());
        let one_way =
            |option: &str, maps: &[(String, String)]| map_rules(maps).map_err(|cause| wrong("--map", option, &cause));
        let mut maps = Vec::with_capacity(request.maps.len());
        for map in &request.maps {
            let text = format!("{} {}", map.0, map.1);
            let rules = one_way(&text, std::slice::from_ref(map))?;
            one_way(&text, &[swapped(map)])?;
            maps.push((format!("--map {text}"), rules));
        }
        let all = vec![(ALL.to_owned(), ALL.to_owned())];
        let forward = if request.maps.is_empty() { &all } else { &request.maps };
        let backward: Vec<(String, String)> = forward.iter().map(swapped).collect();
        Ok(Selection {
            tables: patterns("--tables", &request.tables)?,
            excluded: patterns("--exclude", &request.excluded)?,
            maps,
            forward: one_way("", forward)?,
            // Tables that only the target has are found by the way back.
            backward: one_way("", &backward)?,
        })
    }

    /// The selection as two databases read it.
    pub(crate) fn plan(&self, source: &Names, target: &Names) -> SelectionPlan {
        let tables = |list: &[(String, TableRules)]| -> Vec<(String, TablePlan)> {
            list.iter().map(|(text, rules)| (text.clone(), rules.plan(source.case, &source.default_schema))).collect()
        };
        let maps = |rules: &MapRules, from: &Names, to: &Names| {
            rules.plan(from.case, &from.default_schema, to.case, &to.default_schema)
        };
        let each = |(text, rules): &(String, MapRules)| (text.clone(), maps(rules, source, target));
        SelectionPlan {
            tables: tables(&self.tables),
            excluded: tables(&self.excluded),
            maps: self.maps.iter().map(each).collect(),
            forward: maps(&self.forward, source, target),
            backward: maps(&self.backward, target, source),
        }
    }
}

/// How a database reads names.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) case: CaseRule,
    pub(crate) default_schema: String,
}

/// A [`Selection`] under the case rules of two databases.
pub(crate) struct SelectionPlan {
    tables: Vec<(String, TablePlan)>,
    excluded: Vec<(String, TablePlan)>,
    maps: Vec<(String, MapPlan)>,
    forward: MapPlan,
    backward: MapPlan,
}

impl SelectionPlan {
    /// Whether rows of this source table are compared, if it has a partner.
    pub(crate) fn selects(&self, source: &TableName) -> bool {
        let chosen = self.tables.is_empty() || self.tables.iter().any(|(_, plan)| plan.selects(source));
        chosen && !self.excluded.iter().any(|(_, plan)| plan.selects(source))
    }

    /// The target tables that a source table is compared with.
    pub(crate) fn targets(&self, source: &TableName) -> Vec<TableName> {
        self.forward.targets(source).into_iter().map(|target| target.target).collect()
    }

    /// The source tables that would be compared with a target table.
    pub(crate) fn sources(&self, target: &TableName) -> Vec<TableName> {
        self.backward.targets(target).into_iter().map(|source| source.target).collect()
    }

    /// Options that speak of none of these source tables.
    pub(crate) fn without_effect<'n>(&self, sources: impl Iterator<Item = &'n TableName> + Clone) -> Vec<String> {
        let of_tables = self.tables.iter().chain(&self.excluded);
        let idle_tables = of_tables.filter(|(_, plan)| !sources.clone().any(|name| plan.selects(name)));
        let idle_maps =
            self.maps.iter().filter(|(_, plan)| !sources.clone().any(|name| !plan.targets(name).is_empty()));
        idle_tables.map(|(text, _)| text.clone()).chain(idle_maps.map(|(text, _)| text.clone())).collect()
    }
}

/// Reads one pattern by the parser of parameter files, so that a name means the same here and there.
fn table_rules(pattern: &str) -> Result<TableRules, Diagnostics> {
    let text = format!("EXTRACT c\nSOURCEDB c:c\nEXTTRAIL ./dirdat/aa\nTABLE {pattern};");
    parse_extract(&text, "").map(|parameters| parameters.tables)
}

/// See [`table_rules`].
fn map_rules(maps: &[(String, String)]) -> Result<MapRules, Diagnostics> {
    let statements: String = maps.iter().map(|(from, to)| format!("MAP {from}, TARGET {to};\n")).collect();
    parse_replicat(&format!("REPLICAT c\nTARGETDB c:c\n{statements}"), "").map(|parameters| parameters.map)
}

fn wrong(option: &str, text: &str, cause: &Diagnostics) -> Error {
    let told = cause.list.first().map_or("it can't be read", |diagnostic| diagnostic.message.as_str());
    let next_step = match option {
        "--map" => {
            "write --map SOURCE TARGET, each a name such as sales.orders or sales.*, with as many * on both sides"
        }
        _ => "write a name such as orders, sales.orders or sales.*; put names with other characters in double quotes",
    };
    Error::refused(format!("{option} {text}: {told}"), next_step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(case: CaseRule) -> Names {
        Names { case, default_schema: "public".to_owned() }
    }

    fn plan(tables: &[&str], excluded: &[&str], maps: &[(&str, &str)]) -> SelectionPlan {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        let request = SelectionRequest {
            tables: texts(tables),
            excluded: texts(excluded),
            maps: maps.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect(),
        };
        let names = names(CaseRule::FoldToLower);
        Selection::parse(&request).expect("a selection").plan(&names, &names)
    }

    fn name(text: &str) -> TableName {
        TableName::parse(text).expect("a name")
    }

    #[test]
    fn without_options_every_table_meets_its_namesake() {
        let plan = plan(&[], &[], &[]);
        for text in ["public.t", "\"a.b\".\"c\"\"d\"", "S.T"] {
            assert!(plan.selects(&name(text)));
            assert_eq!(plan.targets(&name(text)), [name(text)]);
            assert_eq!(plan.sources(&name(text)), [name(text)]);
        }
    }

    #[test]
    fn names_are_read_as_in_parameter_files() {
        let plan = plan(&["Orders", "s.\"Mixed\"*"], &["s.MixedTemp", "s.\"MixedTemp\""], &[]);
        for (text, selected) in [
            ("public.orders", true),
            ("public.Orders", false),
            ("s.Mixed1", true),
            ("s.MixedTemp", false),
            ("s.x", false),
        ] {
            assert_eq!(plan.selects(&name(text)), selected, "{text}");
        }
    }

    #[test]
    fn a_map_works_in_both_directions() {
        let plan = plan(&[], &[], &[("hr.*", "copy.hr_*")]);
        assert_eq!(plan.targets(&name("hr.people")), [name("copy.hr_people")]);
        assert_eq!(plan.targets(&name("sales.orders")), []);
        assert_eq!(plan.sources(&name("copy.hr_people")), [name("hr.people")]);
        assert_eq!(plan.sources(&name("copy.people")), []);
    }

    #[test]
    fn options_without_effect_are_told() {
        let plan = plan(&["a", "b*"], &["c"], &[("x.*", "y.*"), ("public.*", "z.*")]);
        let tables = [name("public.a"), name("public.d")];
        assert_eq!(plan.without_effect(tables.iter()), ["--tables b*", "--exclude c", "--map x.* y.*"]);
    }

    #[test]
    fn what_can_not_be_read_is_refused_by_option() {
        let request = SelectionRequest { tables: vec!["a.b.c".to_owned()], ..SelectionRequest::default() };
        let error = Selection::parse(&request).expect_err("a refusal");
        assert!(error.to_string().starts_with("--tables a.b.c: "), "{error}");
        let request =
            SelectionRequest { maps: vec![("a.*".to_owned(), "b.t".to_owned())], ..SelectionRequest::default() };
        let error = Selection::parse(&request).expect_err("a refusal");
        assert!(error.to_string().starts_with("--map "), "{error}");
    }
}
