use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use syn::{ImplItem, Item};

/// The functions and constants of some files of the crate.
#[derive(Clone, Default)]
pub struct Source {
    /// By name, and for a method by `Type::name`.
    pub functions: BTreeMap<String, Function>,
    pub constants: BTreeMap<String, syn::Expr>,
}

#[derive(Clone)]
pub struct Function {
    pub of: Option<String>,
    pub inputs: Vec<syn::FnArg>,
    pub body: syn::Block,
}

/// Returns the folder of the crate's sources.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src")
}

impl Source {
    /// Reads files of the crate, such as `quota/bucket.rs`.
    pub fn read(files: &[&str]) -> Self {
        let mut all = Self::default();
        for file in files {
            let text = fs::read_to_string(folder().join(file))
                .unwrap_or_else(|error| panic!("{file}: {error}"));
            let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
            file.items.into_iter().for_each(|item| all.add(item));
        }
        all
    }

    fn add(&mut self, item: Item) {
        match item {
            Item::Const(item) if item.attrs.iter().any(is_of_loom) => {}
            Item::Const(item) => {
                self.constants.insert(item.ident.to_string(), *item.expr);
            }
            Item::Fn(item) => self.add_function(None, item.sig, *item.block),
            Item::Impl(item) if item.trait_.is_none() => {
                let syn::Type::Path(of) = &*item.self_ty else { return };
                let Some(of) = of.path.segments.last().map(|it| it.ident.to_string()) else {
                    return;
                };
                for item in item.items {
                    if let ImplItem::Fn(item) = item {
                        self.add_function(Some(&of), item.sig, item.block);
                    }
                }
            }
            _ => {}
        }
    }

    fn add_function(&mut self, of: Option<&str>, sig: syn::Signature, body: syn::Block) {
        let name = of.map_or_else(|| sig.ident.to_string(), |of| format!("{of}::{}", sig.ident));
        let inputs = sig.inputs.into_iter().collect();
        self.functions.insert(name, Function { of: of.map(ToOwned::to_owned), inputs, body });
    }
}

/// Returns whether an item is for the models of `tests/loom` alone.
fn is_of_loom(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("loom"))
}
