use quote::ToTokens;
use syn::visit_mut::{self, VisitMut};
use syn::{BinOp, Expr};

use crate::source::Source;

/// A change of one place in the sources.
pub struct Mutant {
    pub source: Source,
    /// The function or the constant that is changed.
    pub of: String,
    /// The place and the change.
    pub says: String,
}

/// Returns all changes of one comparison, operation or number in these functions, and of each constant
/// that they use.
pub fn all(source: &Source, about: &[&str]) -> Vec<Mutant> {
    let mut mutants = Vec::new();
    for name in about {
        for nth in 0.. {
            let mut changed = source.clone();
            let function = changed
                .functions
                .get_mut(*name)
                .unwrap_or_else(|| panic!("no function `{name}` in the sources"));
            let mut change = Change { left: nth, says: None };
            change.visit_block_mut(&mut function.body);
            let Some(says) = change.says else { break };
            let (of, says) = ((*name).to_owned(), format!("{name}: {says}"));
            mutants.push(Mutant { source: changed, of, says });
        }
    }
    let texts: Vec<_> = about
        .iter()
        .map(|name| source.functions[*name].body.to_token_stream().to_string())
        .collect();
    for name in source.constants.keys() {
        let is_used = |text: &String| {
            text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
        };
        if !texts.iter().any(is_used) {
            continue;
        }
        let old = &source.constants[name];
        let new: Expr = syn::parse_quote!((#old) / 2 - 1);
        let mut changed = source.clone();
        changed.constants.insert(name.clone(), new);
        let says = format!("{name}: half of it, less 1");
        mutants.push(Mutant { source: changed, of: name.clone(), says });
    }
    mutants
}

/// Changes the place number `left`.
struct Change {
    left: usize,
    says: Option<String>,
}

impl Change {
    fn is_here(&mut self) -> bool {
        if self.says.is_some() {
            return false;
        }
        let here = self.left == 0;
        self.left = self.left.wrapping_sub(1);
        here
    }
}

impl VisitMut for Change {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        visit_mut::visit_expr_mut(self, expr);
        if self.says.is_some() {
            return;
        }
        let before = expr.to_token_stream().to_string();
        let changes = changes(expr);
        for change in changes {
            if self.is_here() {
                self.says = Some(format!("`{before}` as `{}`", change.to_token_stream()));
                *expr = change;
                return;
            }
        }
    }
}

fn changes(expr: &Expr) -> Vec<Expr> {
    match expr {
        Expr::Binary(binary) => {
            let with = |op: BinOp| Expr::Binary(syn::ExprBinary { op, ..binary.clone() });
            let op = match binary.op {
                BinOp::Lt(_) => syn::parse_quote!(<=),
                BinOp::Le(_) => syn::parse_quote!(<),
                BinOp::Gt(_) => syn::parse_quote!(>=),
                BinOp::Ge(_) => syn::parse_quote!(>),
                BinOp::Eq(_) => syn::parse_quote!(!=),
                BinOp::Ne(_) => syn::parse_quote!(==),
                BinOp::Add(_) => syn::parse_quote!(-),
                BinOp::Sub(_) => syn::parse_quote!(+),
                BinOp::Div(_) => syn::parse_quote!(*),
                BinOp::And(_) => syn::parse_quote!(||),
                BinOp::Or(_) => syn::parse_quote!(&&),
                _ => return Vec::new(),
            };
            vec![with(op)]
        }
        Expr::MethodCall(call) => {
            let other = match &*call.method.to_string() {
                "min" | "fetch_min" => "max",
                "max" | "fetch_max" => "min",
                "saturating_add" => "saturating_sub",
                "saturating_sub" => "saturating_add",
                "checked_sub" => "checked_add",
                "checked_add" => "checked_sub",
                _ => return Vec::new(),
            };
            let other = if call.method.to_string().starts_with("fetch_") {
                format!("fetch_{other}")
            } else {
                other.to_owned()
            };
            let method = syn::Ident::new(&other, call.method.span());
            vec![Expr::MethodCall(syn::ExprMethodCall { method, ..call.clone() })]
        }
        Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(int), .. }) => {
            let Ok(number) = int.base10_parse::<u64>() else { return Vec::new() };
            let more = syn::LitInt::new(&(number + 1).to_string(), int.span());
            vec![syn::parse_quote!(#more)]
        }
        Expr::Lit(syn::ExprLit { lit: syn::Lit::Bool(truth), .. }) => {
            let other = syn::LitBool::new(!truth.value, truth.span);
            vec![syn::parse_quote!(#other)]
        }
        _ => Vec::new(),
    }
}
