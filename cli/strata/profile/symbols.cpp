#include "profile/symbols.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gelf.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <iterator>

// Otherwise libiberty.h declares a basename() that conflicts with <string.h>.
#define HAVE_DECL_BASENAME 1
#include <libiberty/demangle.h>

namespace strata::cli {
namespace {

bool is_function(Dwarf_Die* die) {
  const int tag = ::dwarf_tag(die);
  return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine || tag == DW_TAG_entry_point;
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

/// Scopes allocated by libdw, innermost first.
struct Scopes {
  std::unique_ptr<Dwarf_Die, Free> dies;
  int count = 0;
};

/// A function's own scope and those around it.
Scopes scopes_of(Dwarf_Die* die) {
  Dwarf_Die* found = nullptr;
  const int count = ::dwarf_getscopes_die(die, &found);
  return {std::unique_ptr<Dwarf_Die, Free>(found), count};
}

/// Maximum nesting of functions, far beyond real code: damaged references may be cyclic.
constexpr int kMostNested = 32;

std::string name_of(Dwarf_Die* die, int nested = 0);

/// The namespaces, classes and functions in which a function is declared: "std::thread::".
std::string scope_of(Dwarf_Die* die, int nested) {
  Dwarf_Die declaration = *die;
  for (unsigned attribute : {DW_AT_abstract_origin, DW_AT_specification}) {
    Dwarf_Attribute memory;
    Dwarf_Die next;
    Dwarf_Attribute* const reference = ::dwarf_attr(&declaration, attribute, &memory);
    if (reference != nullptr && ::dwarf_formref_die(reference, &next) != nullptr)
      declaration = next;
  }
  const auto named = [](Dwarf_Die* scope, const char* otherwise) {
    const char* const name = ::dwarf_diename(scope);
    return fmt::format("{}::", name != nullptr ? name : otherwise);
  };
  const Scopes scopes = scopes_of(&declaration);
  std::string text;
  for (int i = 1; i < scopes.count; ++i) {
    Dwarf_Die* const scope = &scopes.dies.get()[i];
    switch (::dwarf_tag(scope)) {
      case DW_TAG_namespace:
        text.insert(0, named(scope, "(anonymous namespace)"));
        break;
      case DW_TAG_class_type:
      case DW_TAG_structure_type:
      case DW_TAG_union_type:
        text.insert(0, named(scope, "(unnamed)"));  // usually a lambda's
        break;
      case DW_TAG_subprogram:
        if (nested == kMostNested) return text;
        return name_of(scope, nested + 1) + "::" + text;
      default:
        break;
    }
  }
  return text;
}

/// Takes namespaces from the linkage name. Functions without one have no namespaces: C functions,
/// and those of local types, such as std::thread's for a lambda.
std::string name_of(Dwarf_Die* die, int nested) {
  Dwarf_Attribute memory;
  for (unsigned attribute : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    const char* name = ::dwarf_formstring(::dwarf_attr_integrate(die, attribute, &memory));
    if (name != nullptr) return readable_name(name);
  }
  const char* name = ::dwarf_formstring(::dwarf_attr_integrate(die, DW_AT_name, &memory));
  return name == nullptr ? std::string() : scope_of(die, nested) + name;
}

std::uint64_t number_of(Dwarf_Die* die, unsigned attribute) {
  Dwarf_Attribute memory;
  Dwarf_Word value = 0;
  ::dwarf_formudata(::dwarf_attr(die, attribute, &memory), &value);
  return value;
}

/// The function at this address and all functions that it was inlined into, innermost first.
Scopes functions_at(Dwarf_Die* unit, Dwarf_Addr address) {
  Dwarf_Die* found = nullptr;
  const int count = ::dwarf_getscopes(unit, address, &found);
  const std::unique_ptr<Dwarf_Die, Free> lexical(found);
  for (int i = 0; i < count; ++i) {
    // An inlined function's lexical scopes are those of its definition, not of its call.
    if (is_function(&found[i])) return scopes_of(&found[i]);
  }
  return {};
}

/// The compilation units of a module by address. libdw finds units through the section
/// .debug_aranges, which GCC writes and Clang does not. This class reads the units themselves if an
/// address is not found there.
class Units {
 public:
  struct Unit {
    Dwarf_Die* die;  ///< nullptr: none
    Dwarf_Addr bias;
  };

  Unit at(Dwfl_Module* module, Dwarf_Addr address) {
    Unit unit{};
    unit.die = ::dwfl_module_addrdie(module, address, &unit.bias);
    if (unit.die != nullptr) return unit;
    if (!is_read_) read(module);
    const auto after = by_start_.upper_bound(address);
    if (after == by_start_.begin()) return {};
    const Range& range = std::prev(after)->second;
    return address < range.end ? range.unit : Unit{};
  }

 private:
  struct Range {
    Dwarf_Addr end;
    Unit unit;
  };

  void read(Dwfl_Module* module) {
    is_read_ = true;
    Dwarf_Addr bias = 0;
    for (Dwarf_Die* die = nullptr; (die = ::dwfl_module_nextcu(module, die, &bias)) != nullptr;) {
      Dwarf_Addr base = 0;
      Dwarf_Addr start = 0;
      Dwarf_Addr end = 0;
      for (std::ptrdiff_t at = 0; (at = ::dwarf_ranges(die, at, &base, &start, &end)) > 0;) {
        by_start_[start + bias] = {end + bias, {die, bias}};
      }
    }
  }

  std::map<Dwarf_Addr, Range> by_start_;
  bool is_read_ = false;
};

}  // namespace

/// The symbols of one file.
class SymbolFiles::Symbols {
 public:
  Symbols() {
    callbacks_.find_elf = ::dwfl_build_id_find_elf;
    callbacks_.find_debuginfo = ::dwfl_standard_find_debuginfo;
    callbacks_.section_address = ::dwfl_offline_section_address;
    session_ = ::dwfl_begin(&callbacks_);
  }
  ~Symbols() {
    if (session_ != nullptr) ::dwfl_end(session_);
  }
  Symbols(const Symbols&) = delete;
  Symbols& operator=(const Symbols&) = delete;

  bool open(const std::string& file) {
    if (session_ == nullptr) return false;
    ::dwfl_report_begin(session_);
    module_ = ::dwfl_report_offline(session_, file.c_str(), file.c_str(), -1);
    ::dwfl_report_end(session_, nullptr, nullptr);
    return module_ != nullptr && ::dwfl_module_getelf(module_, &bias_) != nullptr;
  }

  bool has_build_id(const std::string& build_id) const {
    const unsigned char* bits = nullptr;
    GElf_Addr where = 0;
    const int count = ::dwfl_module_build_id(module_, &bits, &where);
    return count > 0 && fmt::format("{:02x}", fmt::join(bits, bits + count, "")) == build_id;
  }

  /// Empty if nothing is known.
  std::vector<Line> lines_at(std::uint64_t file_offset) {
    const Dwarf_Addr address = address_of(file_offset);
    return address == 0 ? std::vector<Line>() : lines_of(address);
  }

 private:
  /// The address at which libdwfl placed this file offset; 0 if no segment contains it.
  Dwarf_Addr address_of(std::uint64_t file_offset) const {
    GElf_Addr ignored;
    Elf* elf = ::dwfl_module_getelf(module_, &ignored);
    std::size_t count = 0;
    if (elf == nullptr || ::elf_getphdrnum(elf, &count) != 0) return 0;
    for (std::size_t i = 0; i < count; ++i) {
      GElf_Phdr segment;
      if (::gelf_getphdr(elf, static_cast<int>(i), &segment) == nullptr) continue;
      if (segment.p_type != PT_LOAD || file_offset < segment.p_offset) continue;
      if (file_offset - segment.p_offset >= segment.p_filesz) continue;
      return file_offset - segment.p_offset + segment.p_vaddr + bias_;
    }
    return 0;
  }

  std::vector<Line> lines_of(Dwarf_Addr address) {
    Line innermost;
    if (const auto [unit, unit_bias] = units_.at(module_, address); unit != nullptr) {
      if (Dwarf_Line* source = ::dwarf_getsrc_die(unit, address - unit_bias)) {
        int line = 0;
        ::dwarf_lineno(source, &line);
        const char* file = ::dwarf_linesrc(source, nullptr, nullptr);
        if (file != nullptr) innermost.file = file;
        innermost.line = static_cast<std::uint64_t>(line);
      }
      std::vector<Line> lines = inlined_lines(unit, address - unit_bias, innermost);
      if (!lines.empty()) return lines;
      // In a gap between the parts of a unit, libdw still returns the unit and its last line.
      if (::dwarf_haspc(unit, address - unit_bias) <= 0) innermost = {};
    }
    GElf_Off offset = 0;
    GElf_Sym symbol;
    const char* name =
        ::dwfl_module_addrinfo(module_, address, &offset, &symbol, nullptr, nullptr, nullptr);
    // The nearest symbol below is the function only if it extends to the address.
    if (name == nullptr || (symbol.st_size != 0 && offset >= symbol.st_size)) return {};
    innermost.function = readable_name(name);
    return {innermost};
  }

  static std::vector<Line> inlined_lines(Dwarf_Die* unit, Dwarf_Addr address, Line place) {
    std::vector<Line> lines;
    Scopes scopes = functions_at(unit, address);
    Dwarf_Files* files = nullptr;
    ::dwarf_getsrcfiles(unit, &files, nullptr);
    for (int i = 0; i < scopes.count; ++i) {
      Dwarf_Die* die = &scopes.dies.get()[i];
      if (!is_function(die)) continue;
      place.function = name_of(die);
      if (place.function.empty()) return {};
      lines.push_back(place);
      if (::dwarf_tag(die) != DW_TAG_inlined_subroutine) break;
      const char* file = files == nullptr ? nullptr
                                          : ::dwarf_filesrc(files, number_of(die, DW_AT_call_file),
                                                            nullptr, nullptr);
      place.file = file == nullptr ? "" : file;
      place.line = number_of(die, DW_AT_call_line);
    }
    return lines;
  }

  Dwfl_Callbacks callbacks_{};
  Dwfl* session_ = nullptr;
  Dwfl_Module* module_ = nullptr;
  GElf_Addr bias_ = 0;
  Units units_;
};

SymbolFiles::SymbolFiles(std::string done) : done_(std::move(done)) {}
SymbolFiles::~SymbolFiles() = default;

std::vector<Line> SymbolFiles::lines_at(const std::string& file, const std::string& build_id,
                                        std::uint64_t offset) {
  const auto [entry, is_new] = files_.try_emplace({file, build_id});
  std::unique_ptr<Symbols>& symbols = entry->second;
  if (is_new) symbols = open(file, build_id);
  std::vector<Line> lines;
  if (symbols != nullptr) lines = symbols->lines_at(offset);
  if (!lines.empty()) return lines;
  const std::string name = std::filesystem::path(file).filename().string();
  return {{fmt::format("{}+{:#x}", name.empty() ? file : name, offset), "", 0}};
}

std::unique_ptr<SymbolFiles::Symbols> SymbolFiles::open(const std::string& file,
                                                        const std::string& build_id) {
  if (!file.starts_with('/')) return nullptr;  // "[vdso]" and the like
  auto symbols = std::make_unique<Symbols>();
  if (!symbols->open(file)) return nullptr;
  if (build_id.empty() || symbols->has_build_id(build_id)) return symbols;
  notes_.push_back(
      fmt::format("'{}' is not the file that was {}: its functions stay numbers", file, done_));
  return nullptr;
}

std::string readable_name(const std::string& name) {
  // Without options: no parameters, no return types.
  const std::unique_ptr<char, Free> text(::cplus_demangle(name.c_str(), DMGL_AUTO));
  return text == nullptr ? name : std::string(text.get());
}

}  // namespace strata::cli
