#pragma once

/* What strata-tiny ends with, besides 0. */
#define STRATA_TINY_CORRUPTED 3 /* two of its blocks share memory */
#define STRATA_TINY_REFUSED 4   /* an allocation failed */
