#pragma once

namespace strata::cli {

extern const char* const kPageStyle;      ///< page.css
extern const char* const kPageScript;     ///< page.js
extern const char* const kFlameStyle;     ///< flame.css
extern const char* const kFlameScript;    ///< flame.js
extern const char* const kExplainStyle;   ///< explain.css
extern const char* const kExplainScript;  ///< explain.js

}  // namespace strata::cli
